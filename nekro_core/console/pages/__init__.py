"""The pages of the console, in the order of the navigation."""

from nekro_core.console.frame import ConsolePage
from nekro_core.console.pages.about import about_page
from nekro_core.console.pages.account import account_page
from nekro_core.console.pages.audit import audit_page
from nekro_core.console.pages.backups import backups_page
from nekro_core.console.pages.home import home_page
from nekro_core.console.pages.logs import logs_page
from nekro_core.console.pages.people import people_page
from nekro_core.console.pages.timers import timers_page
from nekro_core.console.pages.undelivered import undelivered_page
from nekro_core.operator.roles import AccessRole

PAGES = (
    ConsolePage(name="", group="overview", icon="home", draw=home_page),
    ConsolePage(name="undelivered", group="chats", icon="outbox", draw=undelivered_page),
    ConsolePage(name="timers", group="chats", icon="schedule", draw=timers_page),
    ConsolePage(name="account", group="system", icon="account_circle", draw=account_page),
    ConsolePage(
        name="people", group="system", icon="group", draw=people_page, role=AccessRole.OWNER
    ),
    ConsolePage(name="backups", group="system", icon="archive", draw=backups_page),
    ConsolePage(name="logs", group="system", icon="subject", draw=logs_page),
    ConsolePage(
        name="audit", group="system", icon="history", draw=audit_page, role=AccessRole.OPERATOR
    ),
    ConsolePage(name="about", group="system", icon="info_outline", draw=about_page),
)
