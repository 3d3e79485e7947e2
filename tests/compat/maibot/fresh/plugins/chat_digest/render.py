def page(text: str) -> str:
    return f"<html><body><div id='card'>{text}</div></body></html>"
