"""Turns Markdown into plain text whose parts have styles, such as bold.

This one form serves all platforms. A platform with entities (Telegram) or nodes (Feishu) takes text
and styles as they are. A platform with a markup language of its own (Discord, KOOK) writes marks
around the parts. A platform without markup takes the text alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from markdown_it.tree import SyntaxTreeNode

from nekro_core.delivery.markdown.parser import is_web_address, parse_markdown
from nekro_core.delivery.markdown.tables import TextTable, aligned_table, listed_table


class TextStyle(StrEnum):
    """How a part of a text looks. ``CODE`` is code within a line, ``BLOCK`` is code in lines of its
    own, and ``HEADING`` is a heading."""

    BOLD = "bold"
    ITALIC = "italic"
    CODE = "code"
    BLOCK = "block"
    HEADING = "heading"


@dataclass(frozen=True, slots=True)
class StyledPart:
    """A part of a text.

    Attributes:
        text: The words, without marks.
        styles: How they look.
        link: The address to which the words link; empty if they are not a link.
        language: The language of the code in a ``BLOCK``; may be empty.
    """

    text: str
    styles: frozenset[TextStyle] = frozenset()
    link: str = ""
    language: str = ""


def styled_text(source: str) -> tuple[StyledPart, ...]:
    """Turn Markdown into parts.

    Args:
        source: The text, as a model wrote it.

    Returns:
        The parts in order. A text without markup is one part and unchanged. Tables become aligned
        text in a `TextStyle.BLOCK`. Formulas stay as they were written.
    """
    tree = parse_markdown(source)
    if tree is None:
        return (StyledPart(source),)
    parts = (StyledPart(_margin(source)), *_Writer(plain=False).blocks(tree.children))
    return tuple(_merged(parts))


def plain_from_markdown(source: str) -> str:
    """Turn Markdown into text for a platform without markup.

    Args:
        source: The text, as a model wrote it.

    Returns:
        The text without marks. The address of a link follows its words in brackets. Single stars
        stay, because people write ``*waves*`` too. Lists keep their numbers, and ``*`` before an
        item becomes a bullet. The columns of a narrow table are aligned; a wide table becomes a
        list. A text without markup is returned unchanged.
    """
    tree = parse_markdown(source)
    if tree is None:
        return source
    words = "".join(part.text for part in _Writer(plain=True).blocks(tree.children))
    return _margin(source) + words


def tables_as_code(source: str) -> str:
    """Write the tables of a Markdown text as blocks of code with aligned columns, for a platform
    whose Markdown has no tables. Tables inside of lists and quotes stay.

    Args:
        source: The text, as a model wrote it.

    Returns:
        The text, still Markdown.
    """
    tree = parse_markdown(source)
    tables = [node for node in tree.children if node.type == "table"] if tree is not None else []
    lines = source.split("\n")
    for node in reversed(tables):
        if node.map is not None:
            aligned = aligned_table(_Writer(plain=True).table(node))
            lines[node.map[0] : node.map[1]] = ["```", *aligned.split("\n"), "```"]
    return "\n".join(lines)


class _Writer:
    """Writes the parts of a syntax tree. ``plain`` is true if the platform shows no styles."""

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain

    def blocks(self, nodes: Sequence[SyntaxTreeNode]) -> Iterator[StyledPart]:
        for position, node in enumerate(nodes):
            if position:
                yield StyledPart("\n" if _follows_at_once(nodes[position - 1], node) else "\n\n")
            yield from self._block(node)

    def table(self, node: SyntaxTreeNode) -> TextTable:
        rows = [row for section in node.children for row in section.children]
        alignments = tuple(
            str(cell.attrs.get("style", "")).removeprefix("text-align:") or "left"
            for cell in rows[0].children
        )
        plain = _Writer(plain=True)
        return TextTable(
            tuple(
                tuple(
                    "".join(part.text for part in plain._inlines(cell.children)).replace("\n", " ")
                    for cell in row.children
                )
                for row in rows
            ),
            alignments,
        )

    def _block(self, node: SyntaxTreeNode) -> Iterator[StyledPart]:
        match node.type:
            case "paragraph" | "inline":
                yield from self._inlines(node.children)
            case "heading":
                heading = frozenset({TextStyle.HEADING})
                for part in self._inlines(node.children):
                    yield replace(part, styles=part.styles | heading)
            case "fence" | "code_block":
                yield self._code(node.content.rstrip("\n"), node.info.split(" ")[0])
            case "bullet_list" | "ordered_list":
                yield from self._list(node)
            case "blockquote":
                yield from _indented(self.blocks(node.children), "> ", "> ")
            case "table":
                table = self.table(node)
                listed = self._plain and not table.is_narrow
                yield self._code(listed_table(table) if listed else aligned_table(table), "")
            case "hr":
                yield StyledPart("———")
            case "math_block" | "math_block_label":
                yield StyledPart(f"$${node.content}$$")
            case _:
                yield StyledPart(node.content)

    def _code(self, text: str, language: str) -> StyledPart:
        if self._plain:
            return StyledPart(text)
        return StyledPart(text, frozenset({TextStyle.BLOCK}), language=language)

    def _list(self, node: SyntaxTreeNode) -> Iterator[StyledPart]:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        for position, item in enumerate(node.children):
            if position:
                yield StyledPart("\n")
            if number is None:
                mark = "- " if node.markup == "-" else "• "
            else:
                mark = f"{number + position}{item.markup} "
            lines = self.blocks(item.children)
            yield from _indented(lines, mark, " " * len(mark))

    def _inlines(self, nodes: Iterable[SyntaxTreeNode]) -> Iterator[StyledPart]:
        for node in nodes:
            yield from self._inline(node)

    def _inline(self, node: SyntaxTreeNode) -> Iterator[StyledPart]:
        match node.type:
            case "inline":
                yield from self._inlines(node.children)
            case "softbreak" | "hardbreak":
                yield StyledPart("\n")
            case "strong":
                yield from self._styled(node, TextStyle.BOLD)
            case "em" if self._plain:
                yield from (StyledPart("*"), *self._inlines(node.children), StyledPart("*"))
            case "em":
                yield from self._styled(node, TextStyle.ITALIC)
            case "code_inline" if self._plain:
                yield StyledPart(node.content)
            case "code_inline":
                yield StyledPart(node.content, frozenset({TextStyle.CODE}))
            case "link":
                yield from self._link(str(node.attrs.get("href", "")), node.children)
            case "image":
                # A picture at an address becomes a link, so that nobody's program fetches it.
                yield from self._link(str(node.attrs.get("src", "")), node.children)
            case "math_inline":
                yield StyledPart(f"${node.content}$")
            case "math_inline_double":
                yield StyledPart(f"$${node.content}$$")
            case _:
                yield StyledPart(node.content)

    def _styled(self, node: SyntaxTreeNode, style: TextStyle) -> Iterator[StyledPart]:
        for part in self._inlines(node.children):
            yield replace(part, styles=part.styles | {style})

    def _link(self, address: str, nodes: Iterable[SyntaxTreeNode]) -> Iterator[StyledPart]:
        parts = list(self._inlines(nodes)) or [StyledPart(address)]
        words = "".join(part.text for part in parts)
        if not is_web_address(address):
            yield from parts
        elif not self._plain:
            yield from (replace(part, link=address) for part in parts)
        elif words.strip() in (address, address.removeprefix("mailto:")):
            yield StyledPart(words)
        else:
            yield from (*parts, StyledPart(f" ({address})"))


def _margin(source: str) -> str:
    """Return the spaces at the beginning of a text. They are kept, because they separate the text
    from a mention before it."""
    return source[: len(source) - len(source.lstrip(" "))]


def _follows_at_once(before: SyntaxTreeNode, node: SyntaxTreeNode) -> bool:
    """Return whether no empty line stands between two blocks. The end of a list or a quote is not
    known exactly, so a list or a quote is always followed by an empty line."""
    if before.type not in ("paragraph", "heading", "fence", "hr", "table"):
        return False
    return before.map is not None and node.map is not None and node.map[0] <= before.map[1]


def _indented(parts: Iterable[StyledPart], first: str, later: str) -> Iterator[StyledPart]:
    """Put ``first`` before the first line and ``later`` before each further line."""
    yield StyledPart(first)
    for part in parts:
        yield replace(part, text=part.text.replace("\n", f"\n{later}"))


def _merged(parts: Iterable[StyledPart]) -> Iterator[StyledPart]:
    """Join neighbouring parts that have the same styles and the same link."""
    last: StyledPart | None = None
    for part in parts:
        if not part.text:
            continue
        if last is None:
            last = part
        elif (
            replace(part, text="") == replace(last, text="") and TextStyle.BLOCK not in part.styles
        ):
            last = replace(last, text=last.text + part.text)
        else:
            yield last
            last = part
    if last is not None:
        yield last
