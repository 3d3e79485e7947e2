"""Shows the chats of all platforms with their history and members, and changes what the bot does in
them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

from pydantic import Field

from nekro_core.chat import ChatKey, Media, Text
from nekro_core.delivery.activity import Activity
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.chat_contents import MediaReading, MessageContents
from nekro_core.operator.chat_parts import ChatControl, ChatTools, MessageSending
from nekro_core.operator.chat_policy import (
    ChatPolicies,
    ChatPolicyView,
    PolicyField,
    ToolSwitchView,
)
from nekro_core.operator.chat_views import (
    ChatRowView,
    ChatsView,
    DecisionView,
    FoundView,
    MemberView,
    MessageView,
    SentView,
    chat_view,
    decision_view,
    member_view,
    message_view,
)
from nekro_core.operator.contract import ActivityFeed
from nekro_core.operator.elsewhere import ProcessChoice
from nekro_core.operator.errors import InvalidParameters, NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.policy import ChatState
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.store import ChatSummary, Store

MAX_SAID = 20_000
"""Maximum number of characters of a message that an operator sends."""
Limit = Annotated[int, Field(ge=1, le=500)]
Seq = Annotated[int, Field(ge=0)]


class Chats(Area):
    """The chats of all platforms.

    Args:
        audit: The audit log.
        store: The store.
        policies: Resolves and changes how the bot behaves in a chat.
        sessions: The running turns.
        outbox: Sends messages.
        activity: The events in the chats.
        media: The stored media of chats.
        tools: The tools of chats.
    """

    name = "chats"

    def __init__(
        self,
        audit: AuditLog,
        *,
        store: Store,
        policies: PolicyResolver,
        sessions: ChatControl,
        outbox: MessageSending,
        activity: ActivityFeed,
        media: MediaReading,
        tools: ChatTools,
    ) -> None:
        super().__init__(audit)
        self._store = store
        self._policies = ChatPolicies(policies)
        self._sessions = sessions
        self._outbox = outbox
        self._activity = activity
        self._contents = MessageContents(store, media)
        self._tools = tools

    @query(role=AccessRole.VIEWER)
    async def newest(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: str = "",
        instance: str = "",
        state: ChatState | None = None,
        text: str = "",
        before: Seq = 0,
        limit: Limit = 50,
    ) -> ChatsView:
        """List chats. The chat with the newest message is first.

        Args:
            platform: Only chats of this adapter.
            instance: Only chats of the account with this instance.
            state: Only chats in this state.
            text: Only chats whose name or key contains this text, and private chats of people whose
                name contains it.
            before: The ``before`` of the last answer; 0 for the beginning.
            limit: The largest number of chats.
        """
        page = await self._store.chat_list.page(
            adapter=platform,
            instance=instance,
            text=text,
            where=self._has_state(state),
            before=before,
            limit=limit,
        )
        return ChatsView(chats=[self._chat(each) for each in page.chats], before=page.before)

    @query(role=AccessRole.VIEWER)
    async def one(self, actor: Actor, *, chat_key: ChatKey) -> ChatRowView:  # noqa: ARG002
        """Get one chat.

        Args:
            chat_key: The chat.
        """
        return self._chat(await self._known(chat_key))

    @query(role=AccessRole.VIEWER)
    async def history(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        before: Seq = 0,
        after: Seq = 0,
        limit: Limit = 50,
    ) -> list[MessageView]:
        """Get messages of a chat, oldest first: the newest, or those before or after a message.

        Args:
            chat_key: The chat.
            before: A message's number: get the newest messages before it.
            after: A message's number: get the oldest messages after it.
            limit: The largest number of messages.
        """
        lines = await self._store.chat_list.history(
            chat_key, before=before, after=after, limit=limit
        )
        return [message_view(line) for line in lines]

    @query(role=AccessRole.VIEWER)
    async def search(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        text: Annotated[str, Field(min_length=1, max_length=200)],
        chat_key: ChatKey | None = None,
        before: Seq = 0,
        limit: Annotated[int, Field(ge=1, le=200)] = 50,
    ) -> FoundView:
        """Find messages that contain a text, newest first. An answer takes about 0.1 s and may end
        before all messages were searched; then ask again with its ``before``.

        Args:
            text: A word or a part of a message.
            chat_key: Only messages of this chat.
            before: The ``before`` of the last answer; 0 for the beginning.
            limit: The largest number of messages.
        """
        if not text.strip():
            raise InvalidParameters({"text": "expected a word or a part of a message"})
        found = await self._store.search.find(text, chat_key=chat_key, before=before, limit=limit)
        return FoundView(messages=[message_view(line) for line in found.lines], before=found.before)

    @query(role=AccessRole.VIEWER)
    async def members(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        limit: Limit = 200,
    ) -> list[MemberView]:
        """List the people of a chat. The person who wrote the most messages is first.

        Args:
            chat_key: The chat.
            limit: The largest number of people.
        """
        found = await self._store.chat_list.members(chat_key, limit=limit)
        return [member_view(each) for each in found]

    @query(role=AccessRole.VIEWER)
    async def decision(self, actor: Actor, *, seq: Seq) -> DecisionView:  # noqa: ARG002
        """Get why the bot answered a message, or why not.

        Args:
            seq: The message's number.
        """
        return decision_view(await self._contents.line(seq))

    @query(role=AccessRole.VIEWER)
    async def policy(self, actor: Actor, *, chat_key: ChatKey) -> ChatPolicyView:  # noqa: ARG002
        """Get how the bot behaves in a chat.

        Args:
            chat_key: The chat.
        """
        return self._policies.view(chat_key)

    @action(role=AccessRole.OPERATOR)
    async def set_policy(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        field: PolicyField,
        value: Any = None,
        revision: str = "",
    ) -> Change[ChatPolicyView]:
        """Change how the bot behaves in a chat. The change is in force at once. If the chat is
        switched to a state without answers, its running turn is stopped.

        Args:
            chat_key: The chat.
            field: The name of the field, as in the file of overrides.
            value: The new value; None to use the value of the account or the bot again.
            revision: The ``revision`` of the policy that was shown (for ``tools``, its
                ``tools_revision``). If somebody has changed the policy since then, nothing is
                changed. If empty, the policy is changed in any case.
        """
        was = self._policies.state(chat_key)
        change = await self._policies.change(chat_key, field, value, revision)
        if field == "state":
            await self._sessions.follow_state(chat_key, was)
        return change

    @query(role=AccessRole.VIEWER)
    async def person_quota(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        place: Annotated[str, Field(min_length=1, max_length=100)],
        user_id: Annotated[str, Field(min_length=1, max_length=200)],
    ) -> dict[str, Any]:
        """Get the quota of 24 hours that is set for this person alone; empty if none is set.

        Args:
            place: The adapter's name, for all accounts of the platform; or the instance of one
                account.
            user_id: The platform's id of the person.
        """
        return self._policies.person_quota(place, user_id)

    @action(role=AccessRole.OPERATOR)
    async def set_person_quota(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        place: Annotated[str, Field(min_length=1, max_length=100)],
        user_id: Annotated[str, Field(min_length=1, max_length=200)],
        quota: Any = None,
    ) -> Change[dict[str, Any]]:
        """Set how much a person may use in 24 hours, in all chats together. If a field is not set
        here, the quota of the chat for each person applies to it.

        Args:
            place: The adapter's name, for all accounts of the platform; or the instance of one
                account.
            user_id: The platform's id of the person.
            quota: An object with ``turns``, ``tokens`` and ``money``; each is a number or left out,
                and 0 means no limit. Without an object, the quota is removed.
        """
        return await self._policies.set_person_quota(place, user_id, quota)

    @query(role=AccessRole.VIEWER)
    async def tools(self, actor: Actor, *, chat_key: ChatKey) -> list[ToolSwitchView]:  # noqa: ARG002
        """List the tools that the agent of a chat has or could have, by plugin.

        Args:
            chat_key: The chat.
        """
        found = await self._tools.all_tools_in(self._tools.context_for(chat_key))
        return self._policies.switches(chat_key, found)

    @action(role=AccessRole.OPERATOR)
    async def switch_tool(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        name: Annotated[str, Field(min_length=1, max_length=401)],
        on: bool,
        revision: str = "",
    ) -> Change[ChatPolicyView]:
        """Switch a tool of a chat on or off, or all tools of a plugin. The change is in force at
        once. Prompts do not show a tool that is off, and calls of it are refused.

        Args:
            chat_key: The chat.
            name: ``plugin:function`` for one tool, ``plugin`` for all of a plugin, ``*`` for all.
            on: Whether the agent has it.
            revision: The ``tools_revision`` of the policy that was shown; as in `set_policy`.
        """
        return await self._policies.switch_tool(chat_key, name, on=on, revision=revision)

    @action(role=AccessRole.OPERATOR)
    async def say(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        text: Annotated[str, Field(min_length=1, max_length=MAX_SAID)],
    ) -> Change[list[SentView]]:
        """Say something in a chat as the bot. The agent sees it in the history.

        Args:
            chat_key: The chat.
            text: What to say.
        """
        await self._known(chat_key)
        receipts = await self._outbox.send(chat_key, (Text(text),))
        sent = [SentView(state=each.state, reason=each.reason) for each in receipts]
        return Change(result=sent, subject=str(chat_key), new=text)

    @action(role=AccessRole.OPERATOR)
    async def show_recalled(
        self,
        actor: Actor,
        *,
        seq: Seq,
    ) -> Change[MessageView]:
        """Show the content of a message that its author recalled or a plugin hid. Its author
        expects that nobody can see it, so the audit log stores who read it. The bot deletes the
        message when it is old enough, or when its author is erased.

        Args:
            seq: The message's number.
        """
        view = await self._contents.recalled(actor, seq)
        return Change(result=view, subject=f"{view.chat_key} {seq}")

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def stop(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        message: Seq = 0,
    ) -> Change[bool]:
        """Stop the turn that runs in a chat. Returns False if no turn was running.

        Args:
            chat_key: The chat.
            message: The number of the message in which a person asked for the stop; 0 if nobody
                did. If it is given and no turn runs, the questions that came before this message
                are dropped. The chat is told what was done.
        """
        ran = self._sessions.working(chat_key)
        if message:
            self._sessions.on_stop((await self._contents.line(message)).record)
        else:
            ran = await self._sessions.stop(chat_key)
        return Change(result=ran, subject=str(chat_key))

    @action(role=AccessRole.OPERATOR, destructive=True, process=ProcessChoice.OWNER)
    async def reset(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        before: Seq = 0,
    ) -> Change[None]:
        """Begin a new conversation in a chat: the agent forgets what was said, and the boxes of the
        chat are removed with their files. The history stays.

        Args:
            chat_key: The chat.
            before: A message's number: only questions before it are dropped. 0 to drop all.
        """
        await self._known(chat_key)
        await self._sessions.reset(chat_key, before)
        return Change(result=None, subject=str(chat_key))

    async def medium_bytes(self, actor: Actor, seq: int, number: int) -> tuple[Media, bytes]:
        """Read a medium of a message, for a page that shows it.

        Args:
            actor: Who wants to see it.
            seq: The message's number.
            number: `MediumView.number`.

        Returns:
            The medium and its bytes.

        Raises:
            NoSuchItem: There is no such message or medium, or the bot has no copy.
            NotAllowed: The message was recalled, and the actor has not called `show_recalled`.
        """
        return await self._contents.medium(actor, seq, number)

    def follow(
        self, chat_key: ChatKey | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Activity]]:
        """Follow the events of one chat, or of all, for a page that shows them. If the caller reads
        so slowly that its queue is full, the iteration ends.

        Args:
            chat_key: The chat; None for all.

        Returns:
            A context whose value iterates over the events.
        """
        return self._activity.watch(chat_key)

    def _has_state(self, state: ChatState | None) -> Callable[[ChatKey], bool]:
        if state is None:
            return lambda _: True
        return lambda chat_key: self._policies.state(chat_key) is state

    async def _known(self, chat_key: ChatKey) -> ChatSummary:
        chat = await self._store.chat_list.one(chat_key)
        if chat is None:
            raise NoSuchItem(f"the bot knows no chat {chat_key}")
        return chat

    def _chat(self, chat: ChatSummary) -> ChatRowView:
        key = chat.chat_key
        worker = self.others.worker_of(key) if self.others is not None else ""
        working = self._sessions.working(key)
        return chat_view(chat, self._policies.state(key), working=working, worker=worker)
