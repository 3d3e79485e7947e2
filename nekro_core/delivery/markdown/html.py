"""Turns Markdown into HTML that is safe to show."""

import re
from html import escape

from loguru import logger
from markdown_it.tree import SyntaxTreeNode

from nekro_core.delivery.markdown.parser import is_web_address, parse_markdown

_TAGS = frozenset(
    """a blockquote br code div em h1 h2 h3 h4 h5 h6 hr li ol p pre span strong table tbody td th
    thead tr ul""".split()  # noqa: SIM905 - the names are easier to read
)
_FORMULA_TAGS = frozenset(
    """math mfenced mfrac mi mmultiscripts mn mo mover mpadded mphantom mroot mrow mspace msqrt
    mstyle msub msubsup msup mtable mtd mtext mtr munder munderover""".split()  # noqa: SIM905
)
_ATTRIBUTES = {
    "a": {"href"},
    "ol": {"start"},
    "code": {"class"},
    "div": {"class"},
    "span": {"class"},
    "td": {"style"},
    "th": {"style"},
    "math": {"display"},
    "mo": {"stretchy", "fence", "form", "separator"},
    "mi": {"mathvariant"},
    "mtable": {"columnalign"},
    "mspace": {"width", "linebreak"},
}
_CLASSES = re.compile(r"(?:language-[\w+#-]{1,30}|nk-[\w-]+|[a-z0-9]{1,3})(?: |$)")
_FORMULA_CHARS = 1_000
"""Maximum number of characters of a formula that is drawn. A longer formula is shown as text."""


def html_from_markdown(source: str, *, formulas: bool = True) -> str:
    """Turn Markdown into HTML.

    The result has only the tags and attributes of a fixed list. The list has no scripts, styles,
    pictures or frames. Links lead to addresses of the web or of mail, in a new window.

    Args:
        source: The text, as a model wrote it. It may be hostile.
        formulas: Whether formulas become MathML. If not, they are shown as code.

    Returns:
        The HTML; empty if the text has no markup and is best shown as it is.
    """
    tree = parse_markdown(source)
    if tree is None:
        return ""
    import nh3  # noqa: PLC0415 - loaded only if a text has markup

    return nh3.clean(
        _Writer(formulas=formulas).write(tree),
        tags=set(_TAGS | _FORMULA_TAGS),
        attributes=_ATTRIBUTES,
        attribute_filter=_checked,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _checked(_tag: str, attribute: str, value: str) -> str | None:
    """Return the value of an attribute, or None to remove the attribute."""
    if attribute == "class":
        return value if _CLASSES.match(value) else None
    if attribute == "style":
        return value if value in _ALIGNED else None
    return value


_ALIGNED = frozenset({"text-align:left", "text-align:right", "text-align:center"})


class _Writer:
    """Writes the HTML of a syntax tree."""

    def __init__(self, *, formulas: bool) -> None:
        self._formulas = formulas

    def write(self, node: SyntaxTreeNode) -> str:
        """Write a node and what it contains."""
        match node.type:
            case "text" | "text_special":
                written = escape(node.content)
            case "softbreak" | "hardbreak":
                written = "<br>\n"
            case "hr":
                written = "<hr>"
            case "code_inline":
                written = f"<code>{escape(node.content)}</code>"
            case "fence" | "code_block":
                written = _code(node.content, node.info.split(" ")[0])
            case "math_inline":
                written = self._formula(node.content, block=False)
            case "math_inline_double" | "math_block" | "math_block_label":
                written = self._formula(node.content, block=True)
            case "link":
                written = self._link(str(node.attrs.get("href", "")), node)
            case "image":
                # A picture at an address becomes a link, so that no browser fetches it.
                written = self._link(str(node.attrs.get("src", "")), node)
            case "table":
                written = f'<div class="nk-table"><table>{self._inside(node)}</table></div>'
            case "root" | "inline":
                written = self._inside(node)
            case "paragraph" if node.hidden:
                # In a list without empty lines, the parser marks the paragraphs as hidden. A hidden
                # paragraph is written without ``<p>``, which would make space between the items.
                written = f"{self._inside(node)}\n"
            case _:
                written = self._element(node)
        return written

    def _element(self, node: SyntaxTreeNode) -> str:
        attributes = "".join(
            f' {name}="{escape(str(value))}"' for name, value in node.attrs.items()
        )
        return f"<{node.tag}{attributes}>{self._inside(node)}</{node.tag}>"

    def _inside(self, node: SyntaxTreeNode) -> str:
        return "".join(self.write(child) for child in node.children)

    def _link(self, address: str, node: SyntaxTreeNode) -> str:
        words = self._inside(node) or escape(node.content or address)
        return f'<a href="{escape(address)}">{words}</a>' if is_web_address(address) else words

    def _formula(self, source: str, *, block: bool) -> str:
        source = source.strip()
        if self._formulas and len(source) <= _FORMULA_CHARS:
            from latex2mathml.converter import convert  # noqa: PLC0415 - 30 ms, seldom needed

            # The library copies the words of ``\\text{...}`` into the HTML as they are. So replace
            # ``<`` and ``>``, which could make a tag.
            safe = source.replace("<", r"\lt ").replace(">", r"\gt ")
            try:
                return convert(safe, display="block" if block else "inline")
            except Exception as error:  # noqa: BLE001 - the library has many errors of its own
                logger.debug("a formula cannot be drawn: {}", error)
        return f"<code>{escape(source)}</code>"


def _code(content: str, language: str) -> str:
    """Write a block of code, coloured if the language is known."""
    inside = _coloured(content, language) or escape(content)
    return f'<pre><code class="language-{escape(language or "text")}">{inside}</code></pre>'


_COLOURED = 8_000
"""Maximum number of characters of a block of code that is coloured."""


def _coloured(content: str, language: str) -> str:
    """Return code as HTML with colours; empty if the language is not known."""
    if not language or len(content) > _COLOURED:
        return ""
    from pygments import highlight  # noqa: PLC0415 - 20 ms, which most starts do not need
    from pygments.formatters.html import HtmlFormatter  # noqa: PLC0415
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415
    from pygments.util import ClassNotFound  # noqa: PLC0415

    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return ""
    return str(highlight(content, lexer, HtmlFormatter(nowrap=True)))
