/* Check the records of a batch (batch_records.py, rule 2) or clean them (offset_map.py, rule 3) at the speed of memory,
 * and encode the rows of a request (compiler.py, rule 3).
 *
 * Each function passes over valid records, and stops before the first invalid or incomplete record. The Python code
 * then finds the error in that record. Without a C compiler, the Python code does all of the work.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <structmember.h>

typedef const unsigned char *bytes;

/* Read a zigzag number of at most `most` bytes. Return 0 if it is not complete before `end`. */
static int number(bytes *at, bytes end, int most, long long *value)
{
    unsigned long long found = 0;
    bytes from = *at;
    for (int n = 0; n < most && from < end; n++) {
        unsigned char byte = *from++;
        found |= (unsigned long long)(byte & 0x7F) << (7 * n);
        if (byte < 0x80) {
            *value = (long long)(found >> 1) ^ -(long long)(found & 1);
            *at = from;
            return 1;
        }
    }
    return 0;
}

/* Skip a length and its bytes; a negative length means null, allowed if `null` is true. Return 0 if incomplete. */
static int text(bytes *at, bytes end, int null, long long *size)
{
    if (!number(at, end, 5, size) || (*size < 0 && !null) || *size > end - *at)
        return 0;
    if (*size > 0)
        *at += *size;
    return 1;
}

/* Check one record. Return 0 if it is invalid or incomplete. */
static int record(bytes *at, bytes limit, long long place, int in_order, long long *time, long long *key)
{
    long long size, ignored, offset, headers;
    if (!number(at, limit, 5, &size) || size < 1 || size > limit - *at)
        return 0;
    bytes end = *at + size;
    *at += 1;
    if (!number(at, end, 10, time) || !number(at, end, 5, &offset) || (in_order && offset != place))
        return 0;
    if (!text(at, end, 1, key) || !text(at, end, 1, &ignored) || !number(at, end, 5, &headers))
        return 0;
    if (headers < 0 || headers > end - *at)
        return 0;
    for (; headers; headers--)
        if (!text(at, end, 0, &ignored) || !text(at, end, 1, &ignored))
            return 0;
    return *at == end;
}

static int append(PyObject *list, Py_ssize_t value)
{
    PyObject *made = PyLong_FromSsize_t(value);
    int failed = !made || PyList_Append(list, made);
    Py_XDECREF(made);
    return failed;
}

static PyObject *check(PyObject *self, PyObject *args)
{
    Py_buffer view;
    Py_ssize_t position, done, count, first = -1;
    int in_order;
    if (!PyArg_ParseTuple(args, "y*nnnp", &view, &position, &done, &count, &in_order))
        return NULL;
    PyObject *keyless = PyList_New(0);
    bytes start = view.buf, limit = start + view.len, at = start + position;
    long long newest = LLONG_MIN;
    if (keyless && (position < 0 || position > view.len)) {
        PyErr_SetString(PyExc_ValueError, "the position is not in the data");
        Py_CLEAR(keyless);
    }
    while (keyless) {
        long long time = LLONG_MIN, key = 0;
        bytes next = at;
        int more = done < count && record(&next, limit, done, in_order, &time, &key);
        if (first >= 0 && (!more || key >= 0)) {
            if (append(keyless, first) || append(keyless, done - 1))
                Py_CLEAR(keyless);
            first = -1;
        }
        if (!more || !keyless)
            break;
        if (key < 0 && first < 0)
            first = done;
        newest = time > newest ? time : newest;
        at = next;
        done++;
    }
    PyBuffer_Release(&view);
    return keyless ? Py_BuildValue("nnNL", done, (Py_ssize_t)(at - start), keyless, newest) : NULL;
}

/* A record as the log cleaner reads it; the size of a null key is negative. */
struct frame {
    bytes key, end;
    long long size, time, offset;
    int has_value;
};

/* Read the record from `at` on. Return 0 if it is invalid or incomplete. */
static int frame(bytes at, bytes limit, struct frame *found)
{
    long long size, value;
    if (!number(&at, limit, 5, &size) || size < 1 || size > limit - at)
        return 0;
    bytes end = found->end = at + size;
    at += 1;
    if (!number(&at, end, 10, &found->time) || !number(&at, end, 5, &found->offset) || !text(&at, end, 1, &found->size))
        return 0;
    found->key = found->size > 0 ? at - found->size : at;
    if (!number(&at, end, 5, &value))
        return 0;
    found->has_value = value >= 0;
    return 1;
}

/* MD5 of RFC 1321: an object of Python's for each key takes longer than all other work for a record. */
static const unsigned int sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static void add_block(unsigned int state[4], bytes block)
{
    static const unsigned char shifts[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
    unsigned int word[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (int n = 0; n < 16; n++)
        word[n] = block[4 * n] | block[4 * n + 1] << 8 | block[4 * n + 2] << 16 | (unsigned int)block[4 * n + 3] << 24;
#define ROUND(round, mixed, place) \
    for (int n = 0; n < 16; n++) { \
        unsigned int sum = a + sines[16 * round + n] + word[(place) % 16] + (mixed), shift = shifts[4 * round + n % 4]; \
        a = d; \
        d = c; \
        c = b; \
        b += sum << shift | sum >> (32 - shift); \
    }
    ROUND(0, d ^ (b & (c ^ d)), n)
    ROUND(1, c ^ (d & (b ^ c)), 5 * n + 1)
    ROUND(2, b ^ c ^ d, 3 * n + 5)
    ROUND(3, c ^ (b | ~d), 7 * n)
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

static void md5(bytes key, long long size, unsigned long long hash[2])
{
    unsigned int state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    unsigned char rest[128] = {0}, digest[16];
    int left = size % 64, padded = left < 56 ? 64 : 128;
    for (bytes end = key + size - left; key < end; key += 64)
        add_block(state, key);
    memcpy(rest, key, left);
    rest[left] = 0x80;
    for (int n = 0; n < 8; n++)
        rest[padded - 8 + n] = (unsigned char)((unsigned long long)size * 8 >> 8 * n);
    for (int n = 0; n < padded; n += 64)
        add_block(state, rest + n);
    for (int n = 0; n < 16; n++)
        digest[n] = (unsigned char)(state[n / 4] >> 8 * (n % 4));
    memcpy(hash, digest, 16);
}

/* The offset map: `slots` of two words of a hash and one of an offset plus 1. */
struct map {
    Py_buffer table;
    Py_ssize_t slots;
};

/* Return the slot of a hash, or the free one where it would be. One slot is always free. */
static unsigned long long *slot_of(struct map *map, const unsigned long long hash[2])
{
    unsigned long long *table = map->table.buf, *end = table + 3 * map->slots;
    unsigned long long *at = table + 3 * (hash[0] % (unsigned long long)map->slots);
    while (at[2] && (at[0] != hash[0] || at[1] != hash[1]))
        at = at + 3 == end ? table : at + 3;
    return at;
}

static PyObject *move(PyObject *self, PyObject *args)
{
    struct map map;
    Py_buffer old;
    if (!PyArg_ParseTuple(args, "y*w*n", &old, &map.table, &map.slots))
        return NULL;
    int holds = map.slots > 0 && map.table.len >= 24 * map.slots && map.table.len > old.len;
    const unsigned long long *from = old.buf, *end = from + old.len / 24 * 3;
    for (; holds && from < end; from += 3)
        if (from[2])
            memcpy(slot_of(&map, from), from, 24);
    PyBuffer_Release(&old);
    PyBuffer_Release(&map.table);
    if (!holds)
        return PyErr_Format(PyExc_ValueError, "the new table is too small");
    Py_RETURN_NONE;
}

static int has_bounds(struct map *map, Py_buffer *view, Py_ssize_t position)
{
    if (position >= 0 && position <= view->len && map->slots > 0 && map->table.len >= 24 * map->slots)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the position is not in the data, or the table is too small");
    return 0;
}

/* Put the keys of records from `at` on, at most `free` new ones. Return the number of records.
 *
 * Records without a key, and offsets below `first`, are passed over. */
static Py_ssize_t put_records(struct map *map, bytes *at, bytes limit, Py_ssize_t count, long long base,
                              long long first, Py_ssize_t *free, long long *last)
{
    Py_ssize_t done = 0;
    struct frame record;
    for (; done < count && frame(*at, limit, &record); done++, *at = record.end) {
        long long offset = base + record.offset;
        if (record.size < 0 || offset < first)
            continue;
        unsigned long long hash[2], *found;
        md5(record.key, record.size, hash);
        found = slot_of(map, hash);
        if (!found[2]) {
            if (!*free)
                break;
            --*free;
            memcpy(found, hash, 16);
        }
        found[2] = offset + 1;
        *last = offset;
    }
    return done;
}

/* Return whether a record stays. */
static int stays(struct map *map, struct frame *record, long long offset, long long limit, int is_due)
{
    if (offset >= limit)
        return 1;
    if (record->size < 0 || (is_due && !record->has_value))
        return 0;
    unsigned long long hash[2];
    md5(record->key, record->size, hash);
    return offset >= (long long)slot_of(map, hash)[2] - 1;
}

/* Add the positions of a run of records to a list, unless the run is empty. Return -1 after an exception. */
static int add_run(PyObject *places, bytes start, bytes run, bytes end)
{
    PyObject *place = run < end ? Py_BuildValue("nn", (Py_ssize_t)(run - start), (Py_ssize_t)(end - start)) : Py_None;
    int failed = !place || (place != Py_None && PyList_Append(places, place));
    if (place != Py_None)
        Py_XDECREF(place);
    return failed ? -1 : 0;
}

static PyObject *put(PyObject *self, PyObject *args)
{
    struct map map;
    Py_buffer view;
    Py_ssize_t free, position, count, done = -1;
    long long base, first, last = -1;
    if (!PyArg_ParseTuple(args, "w*nny*nnLL", &map.table, &map.slots, &free, &view, &position, &count, &base, &first))
        return NULL;
    bytes start = view.buf, at = start + position;
    Py_ssize_t left = free;
    if (has_bounds(&map, &view, position))
        done = put_records(&map, &at, start + view.len, count, base, first, &left, &last);
    PyBuffer_Release(&map.table);
    PyBuffer_Release(&view);
    return done < 0 ? NULL : Py_BuildValue("nnnL", done, (Py_ssize_t)(at - start), free - left, last);
}

static PyObject *kept(PyObject *self, PyObject *args)
{
    struct map map;
    Py_buffer view;
    Py_ssize_t position, count, done = 0, staying = 0;
    long long base, limit, newest = LLONG_MIN;
    int is_due, has_tombstone = 0;
    if (!PyArg_ParseTuple(args, "w*ny*nnLLp", &map.table, &map.slots, &view, &position, &count, &base, &limit, &is_due))
        return NULL;
    PyObject *places = has_bounds(&map, &view, position) ? PyList_New(0) : NULL;
    bytes start = view.buf, at = start + position, run = at, runs_to = at;
    struct frame record;
    for (; places && done < count && frame(at, start + view.len, &record); done++, at = record.end) {
        int stay = stays(&map, &record, base + record.offset, limit, is_due);
        if (!stay)
            continue;
        if (at != runs_to && add_run(places, start, run, runs_to))
            Py_CLEAR(places);
        run = at == runs_to ? run : at;
        runs_to = record.end;
        staying++;
        newest = record.time > newest ? record.time : newest;
        has_tombstone = has_tombstone || !record.has_value;
    }
    if (places && add_run(places, start, run, runs_to))
        Py_CLEAR(places);
    PyBuffer_Release(&map.table);
    PyBuffer_Release(&view);
    if (!places)
        return NULL;
    return Py_BuildValue("nnnNLN", done, (Py_ssize_t)(at - start), staying, places, newest,
                         PyBool_FromLong(has_tombstone));
}

/* A whole batch with the right checksum, uncompressed, outside transactions and without a delete horizon. */
struct batch {
    bytes records, end;
    long long base, next, producer, count;
};

static unsigned long long big_endian(bytes at, int size)
{
    unsigned long long value = 0;
    while (size--)
        value = value << 8 | *at++;
    return value;
}

/* Return 0 if the batch from `at` on is another one, -1 after an exception. `crc32c` is Python's. */
static int plain(PyObject *crc32c, bytes at, bytes limit, struct batch *found)
{
    long long size = limit - at < 61 ? 0 : 12LL + (int)big_endian(at + 8, 4);
    if (size < 61 || size > limit - at || at[16] != 2 || at[22] & 0x77)
        return 0;
    PyObject *rest = PyMemoryView_FromMemory((char *)at + 21, size - 21, PyBUF_READ);
    PyObject *sum = rest ? PyObject_CallFunctionObjArgs(crc32c, rest, NULL) : NULL;
    unsigned long long crc = sum ? PyLong_AsUnsignedLongLong(sum) : 0;
    Py_XDECREF(rest);
    Py_XDECREF(sum);
    if (PyErr_Occurred())
        return -1;
    found->records = at + 61;
    found->end = at + size;
    found->base = (long long)big_endian(at, 8);
    found->next = found->base + (int)big_endian(at + 23, 4) + 1;
    found->producer = (long long)big_endian(at + 43, 8);
    found->count = (int)big_endian(at + 57, 4);
    return crc == big_endian(at + 17, 4);
}

static PyObject *put_batches(PyObject *self, PyObject *args)
{
    struct map map;
    Py_buffer view;
    PyObject *crc32c;
    Py_ssize_t free, position, most, records = 0, batches = 0;
    long long first, last, next = -1;
    if (!PyArg_ParseTuple(args, "w*nnOy*nnL", &map.table, &map.slots, &free, &crc32c, &view, &position, &most,
                          &first))
        return NULL;
    bytes start = view.buf, at = start + position;
    Py_ssize_t left = free;
    struct batch batch;
    int more = has_bounds(&map, &view, position) ? 1 : -1;
    while (more > 0 && records + batches < most && (more = plain(crc32c, at, start + view.len, &batch)) > 0) {
        bytes end = batch.records;
        Py_ssize_t done = put_records(&map, &end, batch.end, batch.count, batch.base, first, &left, &last);
        more = done == batch.count && end == batch.end;
        if (more > 0) {
            at = end;
            next = batch.next;
            records += done;
            batches++;
        }
    }
    PyBuffer_Release(&map.table);
    PyBuffer_Release(&view);
    return more < 0 ? NULL : Py_BuildValue("nnnnL", (Py_ssize_t)(at - start), records, batches, free - left, next);
}

static PyObject *kept_batches(PyObject *self, PyObject *args)
{
    struct map map;
    Py_buffer view;
    PyObject *crc32c;
    Py_ssize_t position, most, records = 0, batches = 0;
    long long limit;
    if (!PyArg_ParseTuple(args, "w*nOy*nnL", &map.table, &map.slots, &crc32c, &view, &position, &most, &limit))
        return NULL;
    PyObject *places = has_bounds(&map, &view, position) ? PyList_New(0) : NULL;
    bytes start = view.buf, at = start + position;
    struct batch batch;
    int more = places ? 1 : -1;
    while (more > 0 && records + batches < most && (more = plain(crc32c, at, start + view.len, &batch)) > 0) {
        long long staying = 0, done = 0;
        int has_tombstone = 0;
        struct frame record;
        for (bytes next = batch.records; done < batch.count && frame(next, batch.end, &record); done++) {
            int stay = stays(&map, &record, batch.base + record.offset, limit, 0);
            staying += stay;
            has_tombstone = has_tombstone || (stay && !record.has_value);
            next = record.end;
        }
        int is_copied = done && staying == done && !has_tombstone;
        int is_dropped = !staying && batch.producer == -1 && batch.next != limit;
        more = done == batch.count && (is_copied || is_dropped);
        if (more > 0 && is_copied) {
            PyObject *place = PyLong_FromSsize_t(at - start);
            more = place && !PyList_Append(places, place) ? 1 : -1;
            Py_XDECREF(place);
        }
        if (more > 0) {
            at = batch.end;
            records += done;
            batches++;
        }
    }
    PyBuffer_Release(&map.table);
    PyBuffer_Release(&view);
    if (more < 0)
        Py_CLEAR(places);
    return places ? Py_BuildValue("nnnN", (Py_ssize_t)(at - start), records, batches, places) : NULL;
}

/* Rows that are being encoded. A row is one entry of a message's list. */
struct rows {
    unsigned char *data;
    Py_ssize_t size, room;
};

/* A field of a row. Its form is that of the struct module for an integer or a bool, A for an array of int32, C for one
 * with a compact length, n for the partition's number, x for constant bytes. `offset` is that of the slot in an entry.
 */
struct column {
    char form;
    Py_ssize_t offset, size;
    bytes constant;
};

enum { COLUMNS = 24 };

static int grow(struct rows *rows, Py_ssize_t more)
{
    if (rows->room - rows->size >= more)
        return 1;
    Py_ssize_t room = 2 * (rows->size + more);
    unsigned char *data = PyMem_Realloc(rows->data, room);
    if (!data) {
        PyErr_NoMemory();
        return 0;
    }
    rows->data = data;
    rows->room = room;
    return 1;
}

/* Append an integer of `size` bytes. Return 0 if `value` is not such an integer. */
static int put_integer(struct rows *rows, PyObject *value, int size)
{
    int overflow;
    if (!value || !PyLong_CheckExact(value))
        return 0;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || (size < 8 && (number < -(1LL << (8 * size - 1)) || number >= 1LL << (8 * size - 1))))
        return 0;
    for (int n = size; n--;)
        rows->data[rows->size++] = (unsigned char)((unsigned long long)number >> (8 * n));
    return 1;
}

/* Append a tuple of int32. Return 0 if `value` is no such tuple. */
static int put_array(struct rows *rows, PyObject *value, int is_compact)
{
    if (!value || !PyTuple_CheckExact(value) || PyTuple_GET_SIZE(value) > INT_MAX - 1)
        return 0;
    Py_ssize_t count = PyTuple_GET_SIZE(value);
    if (!grow(rows, 5 + 4 * count))
        return 0;
    if (is_compact) {
        unsigned long left = (unsigned long)count + 1;
        for (; left > 0x7F; left >>= 7)
            rows->data[rows->size++] = (unsigned char)(left | 0x80);
        rows->data[rows->size++] = (unsigned char)left;
    } else
        for (int n = 4; n--;)
            rows->data[rows->size++] = (unsigned char)(count >> (8 * n));
    for (Py_ssize_t n = 0; n < count; n++)
        if (!put_integer(rows, PyTuple_GET_ITEM(value, n), 4))
            return 0;
    return 1;
}

/* Append the row of an entry. Return 0 if a value does not fit the form of its column. */
static int put_row(struct rows *rows, PyObject *entry, PyObject *index, struct column *columns, Py_ssize_t count)
{
    for (struct column *column = columns; column < columns + count; column++) {
        PyObject *value = column->offset ? *(PyObject **)((char *)entry + column->offset) : index;
        if (!grow(rows, 8 + column->size))
            return 0;
        switch (column->form) {
        case 'x':
            memcpy(rows->data + rows->size, column->constant, column->size);
            rows->size += column->size;
            break;
        case '?':
            if (value != Py_True && value != Py_False)
                return 0;
            rows->data[rows->size++] = value == Py_True;
            break;
        case 'A':
        case 'C':
            if (!put_array(rows, value, column->form == 'C'))
                return 0;
            break;
        default: {
            int size = column->form == 'b' ? 1 : column->form == 'h' ? 2 : column->form == 'q' ? 8 : 4;
            if (!put_integer(rows, value, size))
                return 0;
        }
        }
    }
    return 1;
}

/* Return the offset of a slot of `kind`; 0 if `slot` is not one. */
static Py_ssize_t offset_of(PyObject *slot, PyObject *kind)
{
    if (!Py_IS_TYPE(slot, &PyMemberDescr_Type) || !PyType_IsSubtype((PyTypeObject *)kind, PyDescr_TYPE(slot)))
        return 0;
    return ((PyMemberDescrObject *)slot)->d_member->offset;
}

static int is_same(PyObject *topic, PyObject *last)
{
    return topic == last ||
           (last && PyUnicode_CheckExact(topic) && PyUnicode_CheckExact(last) && PyUnicode_Compare(topic, last) == 0);
}

/* Append (topic, entries, bytes) for the entries from `start` up to `end`. Return 0 for an error. */
static int put_run(PyObject *runs, PyObject *entries, Py_ssize_t start, Py_ssize_t end, PyObject *topic, struct rows *rows)
{
    PyObject *some = PyTuple_GetSlice(entries, start, end), *values = some ? PySequence_List(some) : NULL, *run = NULL;
    if (values)
        run = Py_BuildValue("OOy#", topic, values, rows->data, rows->size);
    int is_put = run && !PyList_Append(runs, run);
    Py_XDECREF(some);
    Py_XDECREF(values);
    Py_XDECREF(run);
    rows->size = 0;
    return is_put;
}

static PyObject *pack_rows(PyObject *self, PyObject *args)
{
    PyObject *entries, *kind, *key, *forms;
    struct column columns[COLUMNS];
    if (!PyArg_ParseTuple(args, "O!O!OO!", &PyTuple_Type, &entries, &PyType_Type, &kind, &key, &PyTuple_Type, &forms))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(forms), partition = offset_of(key, kind), start = 0, n = 0;
    if (!partition || count > COLUMNS)
        Py_RETURN_NONE;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *slot;
        const char *form;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(forms, at), "sO", &form, &slot))
            return NULL;
        columns[at] = (struct column){*form, 0, 0, NULL};
        if (*form == 'x' && PyBytes_CheckExact(slot)) {
            columns[at].constant = (bytes)PyBytes_AS_STRING(slot);
            columns[at].size = PyBytes_GET_SIZE(slot);
        } else if (*form != 'n' && !(columns[at].offset = offset_of(slot, kind)))
            Py_RETURN_NONE;
    }
    struct rows rows = {NULL, 0, 0};
    PyObject *runs = PyList_New(0), *topic = NULL;
    int fits = runs != NULL;
    for (; fits && n < PyTuple_GET_SIZE(entries); n++) {
        PyObject *entry = PyTuple_GET_ITEM(entries, n);
        PyObject *name = Py_TYPE(entry) == (PyTypeObject *)kind ? *(PyObject **)((char *)entry + partition) : NULL;
        if (!name || !PyTuple_Check(name) || PyTuple_GET_SIZE(name) != 2) {
            fits = 0;
            break;
        }
        if (!is_same(PyTuple_GET_ITEM(name, 0), topic)) {
            fits = n == start || put_run(runs, entries, start, n, topic, &rows);
            topic = PyTuple_GET_ITEM(name, 0);
            start = n;
        }
        fits = fits && put_row(&rows, entry, PyTuple_GET_ITEM(name, 1), columns, count);
    }
    fits = fits && (n == start || put_run(runs, entries, start, n, topic, &rows));
    PyMem_Free(rows.data);
    if (fits)
        return runs;
    Py_XDECREF(runs);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"pack_rows", pack_rows, METH_VARARGS, "Encode entries: [(topic, entries, bytes)], or None if Python must do it."},
    {"put_batches", put_batches, METH_VARARGS, "Map keys of plain batches: (position, records, batches, new, end)."},
    {"kept_batches", kept_batches, METH_VARARGS, "Pass over plain batches: (position, records, batches, kept ones)."},
    {"move", move, METH_VARARGS, "Copy the slots in use of a part of a table to a larger table."},
    {"put_keys", put, METH_VARARGS, "Map keys: (records that were read, position after them, new keys, last offset)."},
    {"kept", kept, METH_VARARGS, "Find records that stay: (records that were read, position, places, tombstones)."},
    {"check", check, METH_VARARGS, "Go over valid records: (number of the next, its position, keyless runs, newest)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_walk", NULL, -1, functions};

PyMODINIT_FUNC PyInit__walk(void)
{
    return PyModule_Create(&module);
}
