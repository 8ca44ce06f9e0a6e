/* Check the records of a batch (batch_records.py, rule 2) at the speed of memory.
 *
 * The check passes over valid records, and stops before the first invalid or incomplete record. The Python check then
 * finds the error in that record. Without a C compiler, the Python check does all of the work.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

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
static int record(bytes *at, bytes limit, long long place, int in_order, long long *key)
{
    long long size, ignored, offset, headers;
    if (!number(at, limit, 5, &size) || size < 1 || size > limit - *at)
        return 0;
    bytes end = *at + size;
    *at += 1;
    if (!number(at, end, 10, &ignored) || !number(at, end, 5, &offset) || (in_order && offset != place))
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

static PyObject *walk(PyObject *self, PyObject *args)
{
    Py_buffer view;
    Py_ssize_t position, done, count, first = -1;
    int in_order;
    if (!PyArg_ParseTuple(args, "y*nnnp", &view, &position, &done, &count, &in_order))
        return NULL;
    PyObject *keyless = PyList_New(0);
    bytes start = view.buf, limit = start + view.len, at = start + position;
    if (keyless && (position < 0 || position > view.len)) {
        PyErr_SetString(PyExc_ValueError, "the position is not in the data");
        Py_CLEAR(keyless);
    }
    while (keyless) {
        long long key = 0;
        bytes next = at;
        int more = done < count && record(&next, limit, done, in_order, &key);
        if (first >= 0 && (!more || key >= 0)) {
            if (append(keyless, first) || append(keyless, done - 1))
                Py_CLEAR(keyless);
            first = -1;
        }
        if (!more || !keyless)
            break;
        if (key < 0 && first < 0)
            first = done;
        at = next;
        done++;
    }
    PyBuffer_Release(&view);
    return keyless ? Py_BuildValue("nnN", done, (Py_ssize_t)(at - start), keyless) : NULL;
}

static PyMethodDef functions[] = {
    {"walk", walk, METH_VARARGS, "Go over records that are right: (number of the next, its position, keyless runs)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_walk", NULL, -1, functions};

PyMODINIT_FUNC PyInit__walk(void)
{
    return PyModule_Create(&module);
}
