"""The pages of the console, in the order of the navigation."""

from nekro_core.console.frame import ConsolePage
from nekro_core.console.pages.about import about_page
from nekro_core.console.pages.account import account_page
from nekro_core.console.pages.audit import audit_page
from nekro_core.console.pages.backups import backups_page
from nekro_core.console.pages.chat import chat_page
from nekro_core.console.pages.chats import chats_page
from nekro_core.console.pages.home import home_page
from nekro_core.console.pages.logs import logs_page
from nekro_core.console.pages.mcp import mcp_page
from nekro_core.console.pages.memory import memory_page
from nekro_core.console.pages.models import models_page
from nekro_core.console.pages.network import network_page
from nekro_core.console.pages.people import people_page
from nekro_core.console.pages.personas import personas_page
from nekro_core.console.pages.platforms import platforms_page
from nekro_core.console.pages.plugin import plugin_page
from nekro_core.console.pages.plugins import plugins_page
from nekro_core.console.pages.processes import processes_page
from nekro_core.console.pages.requests import requests_page
from nekro_core.console.pages.settings import settings_page
from nekro_core.console.pages.statistics import statistics_page
from nekro_core.console.pages.timers import timers_page
from nekro_core.console.pages.turn import turn_page
from nekro_core.console.pages.turns import turns_page
from nekro_core.console.pages.undelivered import undelivered_page
from nekro_core.operator.roles import AccessRole

PAGES = (
    ConsolePage(name="", group="overview", icon="home", draw=home_page),
    ConsolePage(name="statistics", group="overview", icon="bar_chart", draw=statistics_page),
    ConsolePage(name="chats", group="chats", icon="forum", draw=chats_page),
    ConsolePage(name="chats", group="", icon="forum", draw=chat_page, path="/{chat_key:path}"),
    ConsolePage(name="turns", group="chats", icon="bolt", draw=turns_page),
    ConsolePage(name="turns", group="", icon="bolt", draw=turn_page, path="/{turn_id:int}"),
    ConsolePage(name="undelivered", group="chats", icon="outbox", draw=undelivered_page),
    ConsolePage(name="requests", group="chats", icon="campaign", draw=requests_page),
    ConsolePage(name="timers", group="chats", icon="schedule", draw=timers_page),
    ConsolePage(name="memory", group="chats", icon="sticky_note_2", draw=memory_page),
    ConsolePage(name="models", group="bot", icon="psychology", draw=models_page, of_process=True),
    ConsolePage(name="personas", group="bot", icon="theater_comedy", draw=personas_page),
    ConsolePage(name="platforms", group="bot", icon="hub", draw=platforms_page, of_process=True),
    ConsolePage(name="plugins", group="bot", icon="extension", draw=plugins_page, of_process=True),
    ConsolePage(
        name="plugins", group="", icon="extension", draw=plugin_page, path="/{plugin:path}"
    ),
    ConsolePage(name="mcp", group="bot", icon="cable", draw=mcp_page, of_process=True),
    ConsolePage(name="network", group="bot", icon="lan", draw=network_page),
    ConsolePage(name="processes", group="system", icon="dns", draw=processes_page, of_cluster=True),
    ConsolePage(name="settings", group="system", icon="settings", draw=settings_page),
    ConsolePage(
        name="people", group="system", icon="group", draw=people_page, role=AccessRole.OWNER
    ),
    ConsolePage(name="account", group="system", icon="account_circle", draw=account_page),
    ConsolePage(name="backups", group="system", icon="archive", draw=backups_page),
    ConsolePage(name="logs", group="system", icon="subject", draw=logs_page),
    ConsolePage(
        name="audit", group="system", icon="history", draw=audit_page, role=AccessRole.OPERATOR
    ),
    ConsolePage(
        name="about", group="system", icon="info_outline", draw=about_page, of_process=True
    ),
)
