"""Recognizes mails that programs sent. The bot must not answer them.

RFC 3834 forbids such answers: two programs that answer each other would continue until a disk is
full.
"""

from email.message import EmailMessage

_ROBOTS = ("mailer-daemon", "postmaster", "no-reply", "noreply", "do-not-reply", "donotreply",
           "bounce", "bounces", "listserv", "majordomo", "autoreply", "auto-reply")  # fmt: skip
_LISTS = ("List-Id", "List-Unsubscribe", "List-Post", "List-Help", "Mailing-List", "Feedback-ID",
          "X-Mailing-List", "X-BeenThere")  # fmt: skip
_RESPONDERS = ("X-Autoreply", "X-Autorespond", "X-Autoresponse", "X-Auto-Reply", "X-Loop",
               "Auto-Response", "X-Failed-Recipients")  # fmt: skip
_BULK = ("bulk", "junk", "list", "auto_reply")


def automatic_reason(mail: EmailMessage, sender: str) -> str:
    """Return why a mail must not be answered, for the log. Empty if a person seems to have written
    the mail."""
    submitted = _plain(mail, "Auto-Submitted")
    if submitted and submitted.partition(";")[0].strip() != "no":
        return f"Auto-Submitted: {submitted}"
    if _plain(mail, "Return-Path") == "<>":
        return "no return path: a notice about another mail"
    precedence = _plain(mail, "Precedence")
    if precedence in _BULK:
        return f"Precedence: {precedence}"
    header = next((name for name in (*_LISTS, *_RESPONDERS) if name in mail), "")
    if header:
        return f"it has {header}"
    suppressed = _plain(mail, "X-Auto-Response-Suppress")
    if any(word in suppressed for word in ("all", "autoreply", "dr")):
        return f"X-Auto-Response-Suppress: {suppressed}"
    if mail.get_content_type() == "multipart/report":
        return "a report about another mail"
    local = sender.partition("@")[0]
    if local in _ROBOTS or local.startswith(("no-reply", "noreply", "bounce+", "bounces+")):
        return f"{sender} is no person"
    return ""


def _plain(mail: EmailMessage, name: str) -> str:
    return str(mail.get(name, "")).strip().lower()
