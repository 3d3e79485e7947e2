"""Describes the eight tools: their names, texts and parameters. The schemas for models and the
checks of inputs are made from this description."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_SANDBOX = {"type": "string", "default": "default"}

DOCUMENT: tuple[Mapping[str, Any], ...] = (
    {
        "name": "shell",
        "description": "Execute a shell command in the sandbox.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "sandbox": _SANDBOX,
                "command": {"type": "string"},
                "timeout_ms": {"type": "number", "default": 30000},
                "working_dir": {"type": "string", "default": "/home/user"},
            },
            "required": ["command"],
        },
    },
    {
        "name": "read_file",
        "description": "Read a file from the sandbox filesystem.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "sandbox": _SANDBOX,
                "path": {"type": "string"},
                "offset": {"type": "number", "description": "Byte offset"},
                "limit": {"type": "number", "description": "Max bytes to read"},
            },
            "required": ["path"],
        },
    },
    {
        "name": "write_file",
        "description": "Write content to a file in the sandbox.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "sandbox": _SANDBOX,
                "path": {"type": "string"},
                "content": {"type": "string"},
                "append": {"type": "boolean", "default": False},
            },
            "required": ["path", "content"],
        },
    },
    {
        "name": "glob",
        "description": "List files matching a glob pattern.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "sandbox": _SANDBOX,
                "pattern": {"type": "string"},
                "cwd": {"type": "string", "default": "/home/user"},
            },
            "required": ["pattern"],
        },
    },
    {
        "name": "browse",
        "description": "Expose a port from the sandbox and return a public URL.",
        "inputSchema": {
            "type": "object",
            "properties": {"sandbox": _SANDBOX, "port": {"type": "number"}},
            "required": ["port"],
        },
    },
    {
        "name": "sandbox_create",
        "description": "Create a named sandbox. No-op if it already exists.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "sandbox": {"type": "string"},
                "image": {"type": "string", "default": "node:22"},
                "sleep_after_ms": {"type": "number", "default": 600000},
            },
            "required": ["sandbox"],
        },
    },
    {
        "name": "sandbox_list",
        "description": "List all active sandboxes in this session.",
        "inputSchema": {"type": "object", "properties": {}},
    },
    {
        "name": "transfer",
        "description": "Copy files between sandboxes.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "from_sandbox": {"type": "string"},
                "from_path": {"type": "string"},
                "to_sandbox": {"type": "string"},
                "to_path": {"type": "string"},
                "recursive": {"type": "boolean", "default": False},
            },
            "required": ["from_sandbox", "from_path", "to_sandbox", "to_path"],
        },
    },
)
"""The tools exactly as in the design document."""

_FILES_STAY = "A sandbox that sleeps keeps its files and loses its processes."

TOLD: Mapping[str, str] = MappingProxyType(
    {
        "shell": "Returns {stdout, stderr, exit_code}. A command that takes longer than timeout_ms "
        "is killed with all that it started: exit code 124, timed_out. Start servers with & "
        f"at the end. {_FILES_STAY}",
        "read_file": "Returns {content, size}: size is the whole file's, in bytes. A longer file "
        "comes up to limit (truncated); read on from an offset. What is no text comes as "
        "encoding base64.",
        "write_file": "Returns {ok, size}: size is the file's afterwards, in bytes. Missing "
        "folders are made.",
        "glob": "Returns {files}, sorted, relative to cwd. ** stands for any folders; hidden files "
        "only where the pattern names them.",
        "browse": "Returns {url} of a server that listens in the sandbox on this port.",
        "sandbox_create": f"Returns {{sandbox, created}}. {_FILES_STAY}",
        "sandbox_list": "Returns {sandboxes} with name, image and status, running or sleeping.",
        "transfer": "Returns {ok, bytes}. to_path is the final name, or an existing folder for a "
        "file. A folder needs recursive.",
    }
)
"""For each tool, sentences for the model that are added to the document's description."""

MEANT: Mapping[str, str] = MappingProxyType(
    {
        "sandbox": "Name of the sandbox; its first use creates it",
        "command": "What /bin/sh runs",
        "content": "What to write",
        "from_sandbox": "Name of the sandbox to copy from",
        "from_path": "File or folder there",
        "to_sandbox": "Name of the sandbox to copy to; its first use creates it",
        "to_path": "Final name there",
        "timeout_ms": "Milliseconds, above 0",
        "working_dir": "Folder in which the command starts",
        "path": "Absolute, or from /home/user",
        "encoding": "What content is: text, or bytes as base64",
        "append": "Add to the end instead of replacing the file",
        "pattern": "Such as **/*.py",
        "cwd": "Folder in which to look",
        "port": "1 to 65535",
        "image": "Such as python or node:22",
        "sleep_after_ms": "Milliseconds without a call until it sleeps",
        "recursive": "Copy a folder with all that is in it",
    }
)
"""Descriptions of parameters for which the document has none."""

ADDED: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "write_file": {
            "encoding": {"type": "string", "enum": ["utf-8", "base64"], "default": "utf-8"}
        }
    }
)
"""Parameters that the document does not have. ``encoding`` is needed because the content of a file
need not be text."""
