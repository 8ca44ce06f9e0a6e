"""Generate Python code that encodes and decodes each message, from its class and its field list.

Rule 1: a protocol field maps to the attribute of the same name, or as the class's `Binding` specifies. A field without
        an attribute is written as its default and ignored when read. If the version has no field for an attribute, the
        attribute gets its own default, or the schema's default if it has none. The bytes of a Secret are its value.
Rule 2: a TopicPartition has two protocol fields, the topic's name and the partition's number; the name may be in an
        enclosing struct. `gathered` arrays are flat in the message and grouped by topic on the wire. The topics are in
        the order of their first occurrence.
Rule 3: a flat struct (numbers, strings, lists of int32) is read and written as one row (`primitives.FixedStructs`).
        The compiled `pack_rows` encodes the rows of parts in a fourth of the time; without a C compiler, the generated
        Python code does it.
Rule 4: reading and writing are generators that yield after every SLICE structs of an array, so that large messages are
        processed in slices. A reader returns the message only at the end. Without arrays of structs they are ordinary
        functions, because a generator takes as long as a short message.
Rule 5: a message with a long list is written from its parts, and read into parts (`messages.parts`). If several
        requests have the same part, its rows are encoded only once.
Rule 6: the rows of existing parts are cached (`rows`). If the cache contains the bytes that a reader is about to
        decode, the reader takes the values of the existing part instead. This happens in a broker on the
        controller's node. Only rows that contain all fields of a value are cached.
"""

from __future__ import annotations

import enum
import struct
import types
import typing
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import attrs

from messages.apis.declaration import Binding
from messages.cluster import TopicId, TopicPartition
from messages.flow.conversation import SLICE, slices
from messages.parts import KEEP_ROWS, PARTED
from messages.security import Secret
from messages.vocabulary import Message, defaults_of, maker
from messages.wire import primitives
from messages.wire.layout import Field, Layout
from messages.wire.rows import (
    Rows,
    Span,
    keep_read,
    keep_rows,
    kept_rows,
    known_rows,
    rows_table,
)

try:
    from messages.wire._walk import pack_rows
except ImportError:
    pack_rows = None  # type: ignore[assignment]

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in slices, with a result."""
LongSteps = Generator[Callable[[], None] | None, None, T]
"""Work in slices, where a slice may be a call for another thread (`actors.gateway.sliced_tasks`, rule 2)."""
Result = tuple[tuple[Any, ...], Any, int]
"""The parts that precede a message, the message itself, and the position after it."""
Reader = Callable[[Any, int], Steps[Result] | Result]
"""Function (data, position): a generator, or the result at once if the layout has no arrays of structs."""
Writer = Callable[[Any, Sequence[Any]], Steps[Sequence[Any]] | list[Any]]
"""Function (message, parts) -> pieces; a generator, or the pieces at once if the layout has no arrays of structs."""

_FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}
_FIXED["uuid"] = "16s"
_TOPIC_NAMES = ("topic_name", "topic", "name", "topic_id")
_PARTITION_NAMES = ("partition_index", "partition", "index")


Bindings = Mapping[type, Binding]

_maker: Callable[[type], Callable[..., Any]] = cache(maker)


def compile_reader(kind: type, layout: Layout, version: int, bindings: Bindings, most: int) -> Reader:
    """Compile a function `read(data, position)`.

    It raises ValueError, IndexError or struct.error for invalid bytes. After every SLICE structs, it raises ValueError
    if it has read more than `most` structs.
    """
    return _Reader(layout, version, bindings, most).compile(kind)


def compile_writer(kind: type, layout: Layout, version: int, bindings: Bindings) -> Writer:
    """Compile a function `write(message, parts)` that returns the pieces of the encoded message.

    It raises ValueError, TypeError, AttributeError or struct.error for a message that cannot be encoded.
    """
    return _Writer(layout, version, bindings).compile(kind)


class EntryCodec(NamedTuple):
    """The generated functions that encode and decode entries of a message's list, without the rest of the message.

    A row is one encoded entry. No entry is split between two parts of a large message, so each part is encoded
    separately.

    Attributes:
        write: Function (entries) -> their `Rows` by topic. Raises as `compile_writer` describes.
        read: Function (topic, data) -> entries. Raises as `compile_reader` describes.
        lacks: Attributes that rows do not contain, with the values that decoded entries get for them.
    """

    write: Callable[[Sequence[Any]], dict[str, Rows]]
    read: Callable[[str, bytes], list[Any]]
    lacks: Mapping[str, object]


def compile_rows(kind: type, layout: Layout, version: int, bindings: Bindings) -> EntryCodec:
    """Return functions that encode and decode entries of a message's list in one version of the API.

    Raises:
        ValueError: In this version, the entries cannot be decoded without the rest of the message.
    """
    writer, reader = _Writer(layout, version, bindings), _Reader(layout, version, bindings, 0)
    return EntryCodec(writer.compile_rows(kind), reader.compile_rows(kind), writer.rows_of(kind)[2])


class _Class:
    """The Python type of a protocol struct: a message class, TopicPartition, or a plain type such as int.

    The type is None for a struct without a Python value, for example an ignored struct. `hints` maps the attributes of
    a message class to their types.
    """

    def __init__(self, kind: Any, bindings: Bindings) -> None:
        self.type = kind
        self.binding = bindings.get(kind, Binding())
        self.hints: dict[str, Any] = {}
        if isinstance(kind, type) and (issubclass(kind, Message) or attrs.has(kind)):
            hints = typing.get_type_hints(kind)
            self.hints = {name: hints[name] for name in defaults_of(kind)}

    @property
    def partition(self) -> str | None:
        """The name of the attribute whose type is TopicPartition; None if there is none."""
        return next((name for name, hint in self.hints.items() if hint is TopicPartition), None)

    def fields(self, attribute: str) -> tuple[str, ...]:
        """Return the fields that may contain the attribute."""
        arrays = self.binding.gathered.get(attribute, ())
        return self.binding.renamed.get(attribute, (attribute,)) + tuple(name for name in arrays if "." not in name)

    def attribute(self, field: str) -> str | None:
        """Return the name of a field's attribute; None if the attribute is a TopicPartition (rule 2)."""
        return next(
            (name for name, hint in self.hints.items() if hint is not TopicPartition and field in self.fields(name)),
            None,
        )

    def grouping(self, field: str) -> tuple[str, str] | None:
        """Return the attribute whose elements are grouped in the array `field`, and the name of the inner array."""
        for attribute, arrays in self.binding.gathered.items():
            for path in arrays:
                outer, _, inner = path.partition(".")
                if inner and outer == field:
                    return attribute, inner
        return None

    def element(self, attribute: str) -> Any:
        """Return the element type of an attribute that is a tuple."""
        hint = self.hints[attribute]
        choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        return next(typing.get_args(choice)[0] for choice in choices if typing.get_origin(choice) is tuple)


class _Code:
    """The source of a function that is being generated, and the names that it uses."""

    def __init__(self, layout: Layout, version: int, bindings: Bindings) -> None:
        self.flexible = layout.flexible
        self.layout = layout
        self.version = version
        self.bindings = bindings
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[str, Any] = {"SLICE": SLICE, "TopicPartition": TopicPartition, "new_tuple": tuple.__new__}
        self.used = 0
        self.parted = ""
        """The attribute of the message whose elements are in parts."""
        self.ids = ""
        """The expression of the topic id in the group that is being written; "" if groups have none."""

    def emit(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    def fresh(self, name: str) -> str:
        """Return a unique name."""
        self.used += 1
        return f"{name}_{self.used}"

    def refer(self, value: Any, name: str = "") -> str:
        """Return a name by which the code can use `value`."""
        name = name or value.__name__.strip("<>")
        while self.names.setdefault(name, value) is not value:
            name += "_"
        return name

    def class_of(self, kind: object) -> _Class:
        return _Class(kind, self.bindings)

    def has_ids(self, kind: _Class, field: Field) -> bool:
        """Return whether the groups of an array have the topic ids of the message's attribute `topic_ids`."""
        return "topic_ids" in kind.hints and any(part.name == "topic_id" for part in _present(field.fields))

    def rows_of(self, kind: type) -> tuple[_Class, Field, dict[str, object]]:
        """Return the class, the array and the missing attributes of the entries in a message's parts.

        The missing attributes are those that the entries' rows do not contain, with their defaults. Raises ValueError
        if no array has rows that can be encoded one by one.
        """
        message, parted = self.class_of(kind), PARTED[kind].field
        for field in _present(self.layout.fields):
            grouped, array = message.grouping(field.name), field
            if grouped is not None and grouped[0] == parted and _is_named(field):
                array = next(part for part in _present(field.fields) if part.name == grouped[1])
            elif message.attribute(field.name) != parted or not _is_named(field):
                continue
            element = self.class_of(message.element(parted))
            lacks = _lacks(element, array)
            if lacks is not None:
                return element, array, lacks
        raise ValueError(
            f"version {self.version} of {kind.__name__} cannot be encoded in parts: none of its arrays can be split"
        )

    def step(self, *lines: str) -> None:
        """Generate code that counts a struct; after every SLICE structs, the code runs `lines` and yields."""
        self.emit("left -= 1", "if not left:", "    left = SLICE", *(f"    {line}" for line in lines), "    yield")

    def finish(self, name: str) -> Any:
        exec(compile("\n".join(self.lines), f"<{name} v{self.version}>", "exec"), self.names)
        return self.names["code"]


def _present(fields: tuple[Field, ...]) -> list[Field]:
    return [field for field in fields if field.present]


def _elements(field: Field) -> tuple[Field, ...]:
    """Return the fields of an array's structs; an array of plain numbers has one field, `partition_index`."""
    return field.fields or (Field("partition_index", field.type),)


def _is_fixed(field: Field) -> bool:
    return field.type in _FIXED and not field.array


def _is_named(field: Field) -> bool:
    """Return whether each struct in the array `field` contains a topic name."""
    return any(part.type == "string" and part.name in _TOPIC_NAMES for part in _present(field.fields))


def _is_flat(fields: tuple[Field, ...]) -> bool:
    """Return whether a struct of these fields is a row (rule 3)."""
    variable = (("string", False), ("int32", True))
    return all(
        _is_fixed(field) or ((field.type, field.array) in variable and not field.nullable) for field in _present(fields)
    )


# -------------------------------------------------------------------------------------------------------- reading


class _Scope:
    """The protocol fields that generated code can use while it reads one struct.

    `values` has an expression for each field of the struct and of the enclosing structs. `defaults` has the default of
    each field of the struct that the version does not have.
    """

    def __init__(self, outer: _Scope | None = None) -> None:
        self.values: dict[str, str] = {} if outer is None else dict(outer.values)
        self.defaults: dict[str, str] = {}

    def first(self, names: tuple[str, ...]) -> str | None:
        return next((self.values[name] for name in names if name in self.values), None)


class _Inner(NamedTuple):
    """A nested array in the decoder that is being generated, and the variable for its decoded elements."""

    field: str
    kind: _Class
    items: str
    parted: bool


class _Reader(_Code):
    """Generates the source code of a decoding function: the methods append code, or return expressions."""

    def __init__(self, layout: Layout, version: int, bindings: Bindings, most: int) -> None:
        super().__init__(layout, version, bindings)
        self.most = most
        self.keeps = False
        """Whether parts keep the rows from which they are read."""

    def compile(self, kind: type) -> Any:
        self.emit("def code(data, position):")
        self.depth = 1
        self.emit("left = SLICE", "done = 0")
        if kind in PARTED:
            self.parted = PARTED[kind].field
            self.names["rows_table"] = rows_table(kind, self.version)
            self.names["new_spans"] = deque
            self.emit("parts = []", f"part = {self.refer(PARTED[kind].part, 'Part')}", "may_know = bool(rows_table)")
            self.emit("spans = new_spans()")
            self.keeps = PARTED[kind].part in KEEP_ROWS and KEEP_ROWS[PARTED[kind].part].message is kind
        self.guesses: list[str] = []
        body, scope = len(self.lines), _Scope()
        scope.values["version"] = str(self.version)
        message = self.class_of(kind)
        scope = self.struct(message, self.layout.fields, scope)
        parts = "tuple(parts)" if self.parted else "()"
        self.emit(f"return {parts}, {self.value(message, self.layout.fields, scope)}, position")
        self.lines[body:body] = self.guesses
        return self.finish(f"read {kind.__name__}")

    def compile_rows(self, kind: type) -> Any:
        """Compile a function that decodes the rows of one topic (`EntryCodec.read`)."""
        element, array, _ = self.rows_of(kind)
        self.emit("def code(topic, data):")
        self.depth = 1
        self.guesses = []
        body, scope = len(self.lines), _Scope()
        scope.values[_TOPIC_NAMES[0]] = "topic"
        self.emit("position, items = 0, []", "while position < len(data):")
        self.depth = 2
        row = self.row(array, scope)
        self.emit(f"items.append({self.value(element, _elements(array), row)})")
        self.depth = 1
        self.emit(f"if position != len(data): {self.refer(_refuse_rest)}()", "return items")
        self.lines[body:body] = self.guesses
        return self.finish(f"read rows of {kind.__name__}")

    def struct(self, kind: _Class, fields: tuple[Field, ...], outer: _Scope, inner: _Inner | None = None) -> _Scope:
        """Generate code that reads a struct field by field; return the scope with its fields."""
        scope = _Scope(outer)
        run: list[tuple[str, str]] = []
        for field in fields:
            if not field.present:
                scope.defaults[field.name] = repr(field.default)
            elif _is_fixed(field):
                run.append((_FIXED[field.type], self.read_fixed(field, scope)))
            else:
                self.unpack(run)
                self.variable(kind, field, scope, inner)
        if self.flexible and kind.binding.tags is not None:
            self.unpack(run)
            scope.values["tags"] = self.fresh("tags")
            self.emit(f"{scope.values['tags']}, position = {self.refer(primitives.read_tags)}(data, position)")
            return scope
        if self.flexible:
            run.append(("B", "tags"))
        self.unpack(run)
        self.skip_tags(self.flexible)
        return scope

    def read_fixed(self, field: Field, scope: _Scope) -> str:
        """Return a variable for a field of fixed size, and add the field to the scope."""
        name = self.fresh(field.name)
        scope.values[field.name] = f"{self.refer(primitives.text_of_id)}({name})" if field.type == "uuid" else name
        return name

    def unpack(self, run: list[tuple[str, str]]) -> None:
        """Generate code that reads consecutive fields of fixed size; `run` has (struct format, variable) pairs."""
        if run:
            layout = struct.Struct(">" + "".join(form for form, _ in run))
            unpack = self.refer(layout.unpack_from, "unpack_" + layout.format[1:].replace("?", "z"))
            self.emit(f"{', '.join(name for _, name in run)}, = {unpack}(data, position)", f"position += {layout.size}")
            run.clear()

    def skip_tags(self, tagged: bool) -> None:
        if tagged:
            self.emit(f"if tags: position = {self.refer(primitives.skip_tags)}(data, position - 1)")

    def variable(self, kind: _Class, field: Field, scope: _Scope, inner: _Inner | None) -> None:
        """Generate code that reads a field of variable size."""
        if inner is not None and field.name == inner.field:
            self.rows(field, scope, inner)
            return
        attribute, grouped = kind.attribute(field.name), kind.grouping(field.name)
        name = scope.values[field.name] = self.fresh(field.name)
        if grouped is not None:
            element = self.class_of(kind.element(grouped[0]))
            within = _Inner(grouped[1], element, self.fresh(grouped[0]), self.is_parted(kind, grouped[0]))
            scope.values[grouped[0]] = within.items
            self.emit(f"{within.items} = []")
            has_ids = self.has_ids(kind, field) and _is_named(field)
            if has_ids:
                scope.values["topic_ids"] = "tuple(topic_ids)"
                self.emit("topic_ids = []")

            def one_topic() -> None:
                inside = self.struct(self.class_of(None), field.fields, scope, within)
                if has_ids:
                    self.emit(f"topic_id = {inside.values['topic_id']}", "if topic_id:")
                    topic = f"({inside.first(_TOPIC_NAMES)}, topic_id)"
                    self.emit(f"    topic_ids.append(new_tuple({self.refer(TopicId)}, {topic}))")

            self.array(field, name, one_topic)
            self.part(kind, grouped[0], within.items)
            self.emit(f"{within.items} = tuple({within.items})")
        elif field.type == "struct" and not field.array:
            absent = self.fresh("absent")
            self.emit(
                f"{absent}, position = (data[position] > 127, position + 1)" if field.nullable else f"{absent} = 0"
            )
            self.emit(f"if not {absent}:")
            self.depth += 1
            self.struct(self.class_of(None), field.fields, scope)
            self.depth -= 1
        elif field.fields or (attribute is not None and attribute in kind.binding.gathered):
            element = self.class_of(None if attribute is None else kind.element(attribute))
            self.emit(f"{name} = []")
            parted = self.is_parted(kind, attribute)
            self.rows(field, scope, _Inner(field.name, element, name, parted))
            self.part(kind, attribute, name)
            self.emit(f"if {name} is not None: {name} = tuple({name})")
        else:
            read = _READ[field.type, field.array]
            self.emit(f"{name}, position = {self.refer(read)}(data, position, {self.flexible})")
            self.check_null(field, f"{name} is None")

    def array(
        self,
        field: Field,
        name: str,
        body: Callable[[], object],
        ahead: Callable[[str], object] = lambda count: None,
    ) -> None:
        """Generate code that reads an array: its count, then the code of `body` for each element.

        `ahead` may generate code that reads the first elements in another way and reduces the count.
        """
        count = self.fresh("count")
        self.emit(f"{count}, position = {self.refer(primitives.read_length)}(data, position, {self.flexible})")
        if field.nullable:
            self.emit(f"if {count} < 0: {name} = None")
        self.check_null(field, f"{count} < 0")
        ahead(count)
        self.emit(f"for _ in range({count}):")
        self.depth += 1
        body()
        self.depth -= 1

    def check_null(self, field: Field, condition: str) -> None:
        if not field.nullable:
            self.emit(f"if {condition}: {self.refer(_refuse_null)}({field.name!r})")

    def is_parted(self, kind: _Class, attribute: str | None) -> bool:
        """Return whether the elements of this attribute are in parts (rule 5)."""
        return kind.type in PARTED and attribute == self.parted

    def part(self, kind: _Class, attribute: str | None, items: str) -> None:
        """Generate code that moves SLICE items of a read array to a part, until at most SLICE items are left."""
        if self.is_parted(kind, attribute):
            self.emit(f"while len({items}) > SLICE: {self.cut(items)}")

    def cut(self, items: str) -> str:
        return f"{self.refer(_cut)}({items}, parts, part, spans, {self.version})"

    def append(self, items: str, kind: _Class, field: Field, outer: _Scope, parted: bool, *spanned: str) -> None:
        """Generate code that reads an element and appends it; the lines `spanned` run at the end of each slice."""
        fields = _elements(field)
        scope = self.row(field, outer) if _is_flat(fields) else self.struct(kind, fields, outer)
        if kind.type is not None:
            self.emit(f"{items}.append({self.value(kind, fields, scope)})")
        self.step(*spanned, *self.slice_lines(items, parted), *(f"seen = len({items})" for _ in spanned))

    def rows(self, field: Field, scope: _Scope, inner: _Inner) -> None:
        """Generate code that reads the elements of one topic.

        If `self.keeps` is set, the code also caches the rows of each part that it creates (rule 6).
        """
        items, topic, lacks = inner.items, scope.first(_TOPIC_NAMES), _lacks(inner.kind, field)
        if not (inner.parted and self.keeps) or lacks is None:
            self.array(field, items, lambda: self.append(items, inner.kind, field, scope, inner.parted))
            return
        named = topic or "''"
        span = f"spans.append(({named}, len({items}) - seen, data[start:position])); start = position"

        def ahead(count: str) -> None:
            if topic is not None and not lacks:
                self.take_known(items, topic, count)
            self.emit(f"start, seen = position, len({items})")

        self.array(field, items, lambda: self.append(items, inner.kind, field, scope, True, span), ahead)
        self.emit(f"if len({items}) > seen: {span}")

    def take_known(self, items: str, topic: str, count: str) -> None:
        """Generate code that takes a topic's first rows from the cache, if they are cached (rule 6)."""
        look = f"{self.refer(known_rows)}(rows_table, {topic}, data, position, {count})"
        self.emit(f"while may_know and {count} and (known := {look}) is not None:")
        self.depth += 1
        self.emit(f"{items} += known.values", "position += len(known.data)")
        self.emit(f"spans.append(({topic}, len(known.values), known))")
        self.emit(f"{count} -= len(known.values)", "left -= len(known.values)")
        self.emit("if left <= 0:", "    left += SLICE")
        self.emit(*(f"    {line}" for line in self.slice_lines(items, parted=True)), "    yield")
        self.depth -= 1

    def slice_lines(self, items: str, parted: bool) -> list[str]:
        """Return lines of generated code that are to run after every SLICE structs.

        The lines raise ValueError after more than `self.most` structs. `items` is the name of the variable that holds
        the structs. If `parted` is true and this variable has more than SLICE structs, the lines also move the first
        SLICE structs to a new part.
        """
        cut = [f"if len({items}) > SLICE: {self.cut(items)}"] if parted else []
        return ["done += SLICE", f"if done > {self.most}: {self.refer(_refuse_more)}({self.most})", *cut]

    def row(self, field: Field, outer: _Scope) -> _Scope:
        """Generate code that reads a flat struct in one step, trying the previous struct's lengths first (rule 3)."""
        scope = _Scope(outer)
        parts, names, lengths = [""], [], []
        for part in _elements(field):
            if not part.present:
                scope.defaults[part.name] = repr(part.default)
            elif _is_fixed(part):
                parts[-1] += _FIXED[part.type]
                names.append(self.read_fixed(part, scope))
            else:
                name = self.fresh(part.name)
                lengths.append(f"length_{name}")
                names += [lengths[-1], name]
                parts += ["ids" if part.array else "text", ""]
                shared = self.refer(primitives.IDS, "IDS") if part.array else self.refer(primitives.TEXTS, "TEXTS")
                scope.values[part.name] = f"{shared}[{name}]"
        tagged = self.flexible and bool(field.fields)
        if tagged:
            parts[-1] += "B"
            names.append("tags")
        rows = primitives.FixedStructs(tuple(parts), self.flexible)
        at = self.refer(rows.layout_at, self.fresh("row_at"))
        guess = self.refer(rows.guess, self.fresh("guess"))
        unpack, size = f"unpack_{guess}", f"size_{guess}"
        known = "".join(f"known_{name}, " for name in lengths)
        self.guesses.append(f"    {unpack}, {size}, ({known}) = {guess}")
        read = f"{', '.join(names)}, = {unpack}(data, position)"
        if lengths:
            alike = " and ".join(f"{name} == known_{name}" for name in lengths)
            self.emit("try:", f"    {read}", f"    alike = {alike}")
            self.emit(f"except {self.refer(struct.error, 'struct_error')}:", "    alike = False")
            self.emit("if not alike:", f"    {unpack}, {size}, ({known}) = {at}(data, position)", f"    {read}")
        else:
            self.emit(read)
        self.emit(f"position += {size}")
        self.skip_tags(tagged)
        return scope

    def value(self, kind: _Class, fields: tuple[Field, ...], scope: _Scope) -> str:
        """Return an expression that creates a value of the class `kind` from the fields."""
        if kind.type is None:
            return "None"
        if kind.type is TopicPartition:
            return self.partition(scope)
        if not kind.hints:  # a struct with a single field; the message has the field's plain value instead of a struct
            return next(scope.values[field.name] for field in fields if field.present)
        make = self.refer(_maker(kind.type), kind.type.__name__)
        return f"{make}({', '.join(self.argument(kind, name, scope) for name in kind.hints)})"

    def argument(self, kind: _Class, attribute: str, scope: _Scope) -> str:
        """Return the expression of an attribute's value (rules 1 and 2)."""
        make = kind.binding.read.get(attribute)
        if make is not None:
            known = [name for name in typing.get_type_hints(make) if name in scope.values]
            return f"{self.refer(make)}({', '.join(f'{name}={scope.values[name]}' for name in known)})"
        if kind.hints[attribute] is TopicPartition:
            return self.partition(scope)
        value = scope.first((*kind.fields(attribute), attribute))
        if value is not None:
            return f"{self.refer(Secret)}({value})" if kind.hints[attribute] is Secret else value
        default = defaults_of(kind.type)[attribute]
        if default is attrs.NOTHING:
            return next(scope.defaults[name] for name in kind.fields(attribute) if name in scope.defaults)
        return repr(int(default) if isinstance(default, enum.IntEnum) else default)

    def partition(self, scope: _Scope) -> str:
        return f"new_tuple(TopicPartition, ({scope.first(_TOPIC_NAMES)}, {scope.first(_PARTITION_NAMES)}))"


def _cut(
    items: list[Any], parts: list[Any], part: Callable[[tuple[Any, ...]], Any], spans: deque[Span], version: int
) -> None:
    """Move the first SLICE items to a new part, and cache their encoded rows in the part if `spans` has the rows."""
    made = part(tuple(items[:SLICE]))
    del items[:SLICE]
    if spans:
        keep_read(made, spans, version)
    parts.append(made)


def _refuse_null(field: str) -> NoReturn:
    raise ValueError(f"the field {field} must not be null")


def _refuse_more(most: int) -> NoReturn:
    raise ValueError(f"all arrays of the request or response together have more than {most} elements")


def _refuse_rest() -> NoReturn:
    raise ValueError("the encoded entries end in the middle of an entry")


def _read_texts(data: bytes, position: int, compact: bool) -> tuple[tuple[str, ...] | None, int]:
    count, position = primitives.read_length(data, position, compact)
    texts: list[str] = []
    for _ in range(count):
        text, position = primitives.read_text(data, position, compact)
        texts.append(text if text is not None else _refuse_null("a text"))
    return None if count < 0 else tuple(texts), position


_READ: dict[tuple[str, bool], Callable[..., Any]] = {
    ("string", False): primitives.read_text,
    ("bytes", False): primitives.read_bytes,
    ("records", False): primitives.read_view,
    ("int32", True): primitives.read_ids,
    ("int64", True): primitives.read_longs,
    ("string", True): _read_texts,
}


# -------------------------------------------------------------------------------------------------------- writing


class _Writer(_Code):
    """Generates the source code of an encoding function: the methods append code, or return expressions."""

    def compile(self, kind: type) -> Any:
        self.emit("def code(message, parts=()):")
        self.depth = 1
        if kind in PARTED:
            self.parted = PARTED[kind].field
            self.names["slices"] = slices
            self.names["rows_table"] = rows_table(kind, self.version)
            self.emit(f"chunks = [part.entries for part in parts] + [*slices(message.{self.parted})]")
        self.emit("left = SLICE", "joined = 0", "out = []", "add = out.append")
        self.struct(self.class_of(kind), self.layout.fields, "message")
        self.emit("return out")
        return self.finish(f"write {kind.__name__}")

    def compile_rows(self, kind: type) -> Any:
        """Compile a function that encodes elements and returns {topic: `Rows`} (`EntryCodec.write`)."""
        element, array, _ = self.rows_of(kind)
        return self.rows_maker(element, array, named=True)

    def rows_maker(self, element: _Class, array: Field, named: bool) -> Any:
        """Compile a function from elements to {topic: `Rows`}; a `Rows` has both the bytes and the elements."""
        maker = _Writer(self.layout, self.version, self.bindings)
        maker.emit("def code(entries):")
        maker.depth = 1
        maker.emit("groups, values = {}, {}")
        maker.gather(element, array, named, "entries", keep=True)
        maker.emit(f"return {{topic: {maker.refer(Rows)}(values[topic], b''.join(groups[topic])) for topic in groups}}")
        make = maker.finish(f"write rows of {element.type.__name__}")
        columns = self.columns(element, array) if named else None
        return make if columns is None or pack_rows is None else partial(_pack_or_make_rows, pack_rows, columns, make)

    def columns(self, element: _Class, array: Field) -> _Columns | None:
        """Return the columns that the compiled `pack_rows` writes for an element; None if it cannot write a field."""
        slots = vars(element.type)
        if element.partition is None or element.binding.tags is not None or not _is_flat(_elements(array)):
            return None
        found: list[tuple[str, object]] = []
        for field in _present(_elements(array)):
            attribute = element.attribute(field.name)
            form = ("C" if self.flexible else "A") if field.array else _FIXED.get(field.type, "")
            if attribute is None and field.name in _PARTITION_NAMES:
                found.append(("n", None))
            elif attribute not in slots or field.name in element.binding.written or form not in tuple("?bhiqAC"):
                return None
            else:
                found.append((form, slots[attribute]))
        if self.flexible and array.fields:
            found.append(("x", b"\0"))  # no tagged fields
        return _Columns(element.type, slots[element.partition], tuple(found))

    def struct(self, kind: _Class, fields: tuple[Field, ...], value: str) -> None:
        """Generate code that writes a struct field by field; `value` is the struct's expression."""
        self.open_partition(kind, value)
        run: list[Field] = []
        for field in _present(fields):
            attribute, grouped = kind.attribute(field.name), kind.grouping(field.name)
            if grouped is not None:
                self.add(kind, run, value)
                self.groups(kind, field, grouped, value)
            elif attribute is not None and (field.fields or attribute in kind.binding.gathered):
                self.add(kind, run, value)
                self.array(kind, field, attribute, value)
            else:
                run.append(field)
        self.add(kind, run, value, self.flexible)

    def open_partition(self, kind: _Class, value: str) -> None:
        if kind.type is TopicPartition:
            self.emit(f"topic, number = {value}")
        elif kind.partition is not None:
            self.emit(f"topic, number = {value}.{kind.partition}")

    def add(self, kind: _Class, run: list[Field], value: str, tagged: bool = False) -> None:
        """Generate code that writes consecutive fields."""
        if run or tagged:
            self.emit(f"add({self.row(kind, run, value, tagged)})")
            run.clear()

    def array(self, kind: _Class, field: Field, attribute: str, value: str) -> None:
        """Generate code that writes an array, element by element."""
        items, item = self.fresh(attribute), self.fresh("item")
        if kind.type in PARTED and attribute == self.parted:
            self.emit(f"add({self.count('chunks', 'sum(map(len, chunks))')})", f"for {items} in chunks:")
            self.depth += 1
            self.elements(kind, field, attribute, items, item)
            self.depth -= 1
            return
        source = kind.binding.written.get(field.name)
        self.emit(f"{items} = {value}.{attribute}" if source is None else f"{items} = {self.refer(source)}({value})")
        if field.nullable:
            self.emit(f"if {items} is None:", f"    add({primitives.null('array', self.flexible)!r})", "else:")
            self.depth += 1
        self.emit(f"add({self.count(items)})")
        self.elements(kind, field, attribute, items, item)
        self.depth -= 1 if field.nullable else 0

    def elements(self, kind: _Class, field: Field, attribute: str, items: str, item: str) -> None:
        """Generate code that writes the elements of an array."""
        self.emit(f"for {item} in {items}:")
        self.depth += 1
        element = self.class_of(kind.element(attribute))
        if _is_flat(_elements(field)):
            self.open_partition(element, item)
            self.emit(f"add({self.whole_row(element, field, item)})")
        else:
            self.struct(element, field.fields, item)
        self.step("out[joined:] = [b''.join(out[joined:])]", "joined = len(out)")
        self.depth -= 1

    def groups(self, kind: _Class, field: Field, grouped: tuple[str, str], value: str) -> None:
        """Generate code that writes a gathered array, grouped by topic (rule 2)."""
        attribute, inner = grouped
        element = self.class_of(kind.element(attribute))
        array = next(part for part in _present(field.fields) if part.name == inner)
        others = [part for part in _present(field.fields) if part.name != inner]
        has_ids = self.has_ids(kind, field)
        named = _is_named(field) or has_ids
        if has_ids:
            self.emit(f"ids = dict({value}.topic_ids)")
        before = others[: _present(field.fields).index(array)]
        after = others[_present(field.fields).index(array) :]
        if kind.type in PARTED and attribute == self.parted:
            gathered = self.gather_parts(element, array, named)
        else:
            self.emit("groups = {}")
            self.gather(element, array, named, f"{value}.{attribute}")
            gathered = "len(rows)", "add(b''.join(rows))"
        if has_ids and not _is_named(field):  # topics without an id share the group of the zero id
            self.emit("by_id = {}", "for topic, rows in groups.items():")
            self.emit("    by_id.setdefault(ids.get(topic, ''), []).extend(rows)")
            self.emit("groups, ids = by_id, {topic_id: topic_id for topic_id in by_id}")
        self.emit(f"add({self.count('groups')})", "for topic, rows in groups.items():")
        self.depth += 1
        keyed = self.class_of(TopicPartition)
        self.ids = "ids.get(topic, '')" if has_ids else ""
        self.add(keyed, before, "")
        self.emit(f"add({self.count('rows', gathered[0])})", gathered[1])
        self.add(keyed, after, "", self.flexible)
        self.ids = ""
        self.depth -= 1

    def gather(self, element: _Class, array: Field, named: bool, items: str, keep: bool = False) -> None:
        """Generate code that adds the row of each item to `groups[topic]`.

        `items` is the expression of the items. If `keep`, the code also adds each item to `values[topic]`. The caller
        generates the empty dicts `groups` and `values`.
        """
        self.emit("last = None", f"for item in {items}:")
        self.depth += 1
        self.open_partition(element, "item")
        if not named:
            self.emit("topic = ''")
        self.emit("if topic is not last:", "    last, rows = topic, groups.get(topic)")
        self.emit("    if rows is None:", "        rows = groups[topic] = []")
        if keep:
            self.emit("        values[topic] = []", "    add_value = values[topic].append", "add_value(item)")
        self.emit(f"rows.append({self.whole_row(element, array, 'item')})")
        if not keep:
            self.step()
        self.depth -= 1

    def gather_parts(self, element: _Class, array: Field, named: bool) -> tuple[str, str]:
        """Generate code that sets `groups`: for each topic, the `Rows` of all parts and of the message's own elements.

        Cached rows of a part are reused (rule 5). Return the expression of the number of a topic's rows, and the code
        that adds the bytes of these rows.
        """
        table = "rows_table" if named and _lacks(element, array) == {} else "None"
        self.names["make_rows"] = self.rows_maker(element, array, named)
        self.emit("all_groups, worked = {}, False", "for at, entries in enumerate(chunks):")
        self.depth += 1
        self.emit(f"made = {self.refer(kept_rows)}(parts[at], {self.version}) if at < len(parts) else None")
        self.emit("if made is None:", "    if worked: yield", "    made, worked = make_rows(entries), True")
        self.emit(f"    if at < len(parts): {self.refer(keep_rows)}(parts[at], made, {self.version}, {table})")
        self.emit("for topic, rows in made.items():")
        self.emit("    known = all_groups.get(topic)", "    if known is None: all_groups[topic] = [rows]")
        self.emit("    else: known.append(rows)")
        self.depth -= 1
        self.emit("groups = all_groups")
        return "sum([len(part.values) for part in rows])", "out += [part.data for part in rows]"

    def whole_row(self, kind: _Class, field: Field, value: str) -> str:
        """Return the expression that encodes an element of an array."""
        return self.row(kind, _present(_elements(field)), value, self.flexible and bool(field.fields))

    def row(self, kind: _Class, fields: list[Field], value: str, tagged: bool) -> str:
        """Return the generated expression that encodes consecutive fields as bytes."""
        pieces: list[str] = []
        run: list[tuple[str, str]] = []
        for field in fields:
            source = self.source(kind, field, value)
            if _is_fixed(field):
                run.append((_FIXED[field.type], source))
            else:
                self.pack(run, pieces)
                nested = field.array and bool(field.fields)
                pieces.append(
                    self.nested_expression(kind, field, source) if nested else self.framed_expression(field, source)
                )
        if tagged and kind.binding.tags is None:
            run.append(("B", "0"))
        self.pack(run, pieces)
        if tagged and kind.binding.tags is not None:
            pieces.append(f"{self.refer(primitives.framed_tags)}({self.refer(kind.binding.tags)}({value}))")
        return pieces[0] if len(pieces) == 1 else f"b''.join(({', '.join(pieces)}))"

    def pack(self, run: list[tuple[str, str]], pieces: list[str]) -> None:
        if run:
            layout = struct.Struct(">" + "".join(form for form, _ in run))
            sources = [source for _, source in run]
            if all(source.isdecimal() for source in sources):  # only constants: encoded here, once
                pieces.append(repr(layout.pack(*map(int, sources))))
            else:
                pack = self.refer(layout.pack, "pack_" + layout.format[1:].replace("?", "z"))
                pieces.append(f"{pack}({', '.join(sources)})")
            run.clear()

    def nested_expression(self, kind: _Class, field: Field, source: str) -> str:
        """Return the generated expression that encodes `field`, an array of structs, as a part of a row."""
        attribute = kind.attribute(field.name)
        element = self.class_of(None if attribute is None else kind.element(attribute))
        item = self.fresh("item")
        made = self.row(element, _present(field.fields), item, self.flexible)
        made = f"{self.count(source)} + b''.join([{made} for {item} in {source}])"
        if field.nullable:
            made = f"({primitives.null('array', self.flexible)!r} if {source} is None else {made})"
        return made

    def framed_expression(self, field: Field, source: str) -> str:
        """Return the expression of a field of variable size."""
        compact = self.flexible
        if (field.type, field.array) == ("string", False):
            made = f"{self.refer(primitives.FRAMED_TEXTS[compact], 'FRAMED_TEXTS')}[{source}]"
        elif (field.type, field.array) == ("int32", True):
            made = f"{self.refer(primitives.FRAMED_IDS[compact], 'FRAMED_IDS')}[{source}]"
        elif (field.type, field.array) == ("int64", True):
            made = f"{self.refer(primitives.framed_longs)}({source}, {compact})"
        elif field.array:
            made = f"{self.refer(_framed_texts)}({source}, {compact})"
        else:
            made = f"{self.refer(primitives.framed_bytes)}({source}, {compact})"
        if field.nullable and not source.startswith("'"):  # a literal, which Python warns about comparing
            null = primitives.null("array" if field.array else field.type, compact)
            made = f"({null!r} if {source} is None else {made})"
        return made

    def source(self, kind: _Class, field: Field, value: str) -> str:
        """Return the expression of a field's value (rules 1 and 2)."""
        make, attribute = kind.binding.written.get(field.name), kind.attribute(field.name)
        if make is not None:
            nullable = f", {field.nullable}" if "nullable" in typing.get_type_hints(make) else ""
            return f"{self.refer(make)}({value}{nullable})"
        if attribute is not None:
            found = f"{value}.{attribute}"
            if kind.hints[attribute] is Secret:
                return f"{found}.value"
            return f"{self.refer(primitives.id_of_text)}({found})" if field.type == "uuid" else found
        if kind.type is TopicPartition and field.type == "uuid" and self.ids:
            return f"{self.refer(primitives.id_of_text)}({self.ids})"
        if kind.type is TopicPartition or kind.partition is not None:
            if field.type == "string" and field.name in _TOPIC_NAMES:
                return "topic"
            if field.name in _PARTITION_NAMES:
                return "number"
        if not kind.hints and kind.type is not TopicPartition:
            return value
        return repr(primitives.ZERO_ID if field.type == "uuid" else field.default)

    def count(self, items: str, expression: str = "") -> str:
        return f"{self.refer(primitives.length)}({expression or f'len({items})'}, {self.flexible})"


class _Columns(NamedTuple):
    """What the compiled `pack_rows` needs: the class of the elements, the slot with their TopicPartition, the columns.

    A column is a pair: its form in `_walk.c`, and its slot or its constant bytes.
    """

    kind: type
    partition: object
    forms: tuple[tuple[str, object], ...]


def _pack_or_make_rows(
    pack: Callable[..., list[tuple[str, list[Any], bytes]] | None],
    columns: _Columns,
    make: Callable[[Sequence[Any]], dict[str, Rows]],
    entries: Sequence[Any],
) -> dict[str, Rows]:
    """Encode entries by compiled code, or by `make` if an entry has a value that the compiled code does not encode."""
    runs = pack(tuple(entries), *columns)
    if runs is None:
        return make(entries)
    rows: dict[str, Rows] = {}
    for topic, values, data in runs:
        before = rows.get(topic)
        rows[topic] = Rows(values, data) if before is None else Rows(before.values + values, before.data + data)
    return rows


def _lacks(kind: _Class, field: Field) -> dict[str, object] | None:
    """Return those attributes of `kind`, with their defaults, that the elements of its array `field` do not contain.

    An attribute of type TopicPartition is left out. The result is None if the elements cannot be decoded without the
    rest of the message, or if one of these attributes has no default.
    """
    present = {part.name for part in _present(_elements(field))}
    numbered = _present(_elements(field))[0].name in (*_PARTITION_NAMES, *_TOPIC_NAMES)
    if kind.binding.read or not numbered or not _is_flat(_elements(field)):
        return None
    declared = {name for name in kind.hints if present.intersection(kind.fields(name))}
    undeclared = [name for name, hint in kind.hints.items() if hint is not TopicPartition and name not in declared]
    defaults = {name: defaults_of(kind.type)[name] for name in undeclared}
    return None if attrs.NOTHING in defaults.values() else defaults


def _framed_texts(value: tuple[str, ...], compact: bool) -> bytes:
    return primitives.length(len(value), compact) + b"".join(primitives.framed_text(text, compact) for text in value)
