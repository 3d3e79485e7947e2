"""Pictures, sounds and files of messages: fetching, storing, fitting, deleting."""
