-- The tables of a new SQLite file. Do not edit: `python -m tests.store.new_tables` writes this file
-- from the models in the folder models. The triggers are in search_triggers.py.
CREATE TABLE "accounts" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "adapter" VARCHAR(64) NOT NULL,
    "account" VARCHAR(255) NOT NULL,
    "instance" VARCHAR(128) NOT NULL UNIQUE,
    "bound" REAL NOT NULL,
    CONSTRAINT "uid_accounts_adapter_b09d48" UNIQUE ("adapter", "account")
);
CREATE TABLE "audit_log" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "at" REAL NOT NULL,
    "ended" REAL NOT NULL,
    "actor" VARCHAR(255) NOT NULL,
    "role" VARCHAR(16) NOT NULL,
    "origin" VARCHAR(16) NOT NULL,
    "address" VARCHAR(64) NOT NULL,
    "action" VARCHAR(128) NOT NULL,
    "parameters" TEXT NOT NULL,
    "subject" VARCHAR(255) NOT NULL,
    "old" TEXT NOT NULL,
    "new" TEXT NOT NULL,
    "outcome" VARCHAR(16) NOT NULL,
    "error" TEXT NOT NULL,
    "undo_action" VARCHAR(128) NOT NULL,
    "undo_parameters" TEXT NOT NULL,
    "undone_by" BIGINT NOT NULL
);
CREATE INDEX "audit_subject_id" ON "audit_log" ("subject", "id");
CREATE INDEX "audit_actor_id" ON "audit_log" ("actor", "id");
CREATE TABLE "box_files" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "name" VARCHAR(64) NOT NULL,
    "record" TEXT NOT NULL,
    "mark" VARCHAR(64) NOT NULL,
    "parts" TEXT NOT NULL,
    "size" BIGINT NOT NULL,
    "epoch" BIGINT NOT NULL,
    "saved" REAL NOT NULL,
    CONSTRAINT "uid_box_files_chat_ke_b99545" UNIQUE ("chat_key", "name")
);
CREATE TABLE "chats" (
    "chat_key" VARCHAR(255) NOT NULL PRIMARY KEY,
    "instance" VARCHAR(128) NOT NULL,
    "first_seen" REAL NOT NULL,
    "handled_seq" BIGINT NOT NULL,
    "name" TEXT NOT NULL DEFAULT ''
);
CREATE INDEX "idx_chats_instanc_e4982a" ON "chats" ("instance");
CREATE TABLE "commit_marks" (
    "node" VARCHAR(255) NOT NULL PRIMARY KEY,
    "mark" BIGINT NOT NULL
);
CREATE TABLE "console_invitations" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "person_id" INT NOT NULL UNIQUE,
    "token_hash" VARCHAR(64) NOT NULL UNIQUE,
    "expires" REAL NOT NULL
);
CREATE TABLE "console_people" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "name" VARCHAR(64) NOT NULL,
    "name_key" VARCHAR(255) NOT NULL UNIQUE,
    "role" VARCHAR(16) NOT NULL,
    "state" VARCHAR(16) NOT NULL,
    "password_hash" TEXT NOT NULL,
    "totp_secret" TEXT NOT NULL,
    "totp_pending" TEXT NOT NULL,
    "totp_step" BIGINT NOT NULL,
    "created" REAL NOT NULL
);
CREATE TABLE "console_recovery_codes" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "person_id" INT NOT NULL,
    "code_hash" VARCHAR(64) NOT NULL,
    CONSTRAINT "uid_console_rec_person__c94364" UNIQUE ("person_id", "code_hash")
);
CREATE TABLE "console_sessions" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "person_id" INT NOT NULL,
    "session_hash" VARCHAR(64) NOT NULL UNIQUE,
    "created" REAL NOT NULL,
    "last_used" REAL NOT NULL,
    "expires" REAL NOT NULL,
    "address" VARCHAR(64) NOT NULL,
    "user_agent" VARCHAR(256) NOT NULL
);
CREATE INDEX "idx_console_ses_person__d5949e" ON "console_sessions" ("person_id");
CREATE TABLE "console_tokens" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "person_id" INT NOT NULL,
    "token_hash" VARCHAR(64) NOT NULL UNIQUE,
    "prefix" VARCHAR(32) NOT NULL,
    "name" VARCHAR(64) NOT NULL,
    "scopes" TEXT NOT NULL,
    "created" REAL NOT NULL,
    "expires" REAL NOT NULL,
    "last_used" REAL NOT NULL
);
CREATE INDEX "idx_console_tok_person__670542" ON "console_tokens" ("person_id");
CREATE TABLE "counted" (
    "name" VARCHAR(32) NOT NULL PRIMARY KEY,
    "through" BIGINT NOT NULL
);
CREATE TABLE "deliveries" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "delivery_id" VARCHAR(64) NOT NULL UNIQUE,
    "chat_key" VARCHAR(255) NOT NULL,
    "run_id" VARCHAR(64) NOT NULL,
    "position" INT NOT NULL,
    "segments" TEXT NOT NULL,
    "state" VARCHAR(16) NOT NULL,
    "message_id" TEXT NOT NULL,
    "reason" TEXT NOT NULL,
    "record_seq" BIGINT NOT NULL,
    "created" REAL NOT NULL,
    "changed" REAL NOT NULL
);
CREATE INDEX "idx_deliveries_run_id_c27f09" ON "deliveries" ("run_id");
CREATE INDEX "idx_deliveries_state_25821f" ON "deliveries" ("state");
CREATE TABLE "documents" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "name" VARCHAR(200) NOT NULL,
    "number" BIGINT NOT NULL,
    "text" TEXT NOT NULL,
    "saved" REAL NOT NULL,
    "removed" INT NOT NULL DEFAULT 0,
    CONSTRAINT "uid_documents_name_3039f5" UNIQUE ("name", "number")
);
CREATE TABLE "item_takes" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "item" VARCHAR(255) NOT NULL,
    "partition" INT NOT NULL,
    "epoch" BIGINT NOT NULL,
    "taken" REAL NOT NULL,
    CONSTRAINT "uid_item_takes_partiti_b522c1" UNIQUE ("partition", "item", "epoch")
);
CREATE INDEX "item_takes_epoch" ON "item_takes" ("partition", "epoch");
CREATE TABLE "latencies" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "period" VARCHAR(8) NOT NULL,
    "dimension" VARCHAR(8) NOT NULL,
    "name" VARCHAR(512) NOT NULL,
    "measure" VARCHAR(16) NOT NULL,
    "start" BIGINT NOT NULL,
    "bucket" INT NOT NULL,
    "number" BIGINT NOT NULL,
    CONSTRAINT "uid_latencies_period_e35f7b" UNIQUE ("period", "dimension", "name", "measure", "start", "bucket")
);
CREATE INDEX "latencies_start" ON "latencies" ("period", "dimension", "start");
CREATE TABLE "media_files" (
    "object_name" VARCHAR(255) NOT NULL PRIMARY KEY,
    "chat_key" VARCHAR(255) NOT NULL,
    "sha256" VARCHAR(64) NOT NULL,
    "size" BIGINT NOT NULL,
    "node" VARCHAR(255) NOT NULL,
    "ready" INT NOT NULL,
    "used" REAL NOT NULL
);
CREATE INDEX "media_files_chat_used" ON "media_files" ("chat_key", "used");
CREATE INDEX "media_files_used" ON "media_files" ("used");
CREATE TABLE "memory_chats" (
    "chat_key" VARCHAR(255) NOT NULL PRIMARY KEY,
    "drawn_through" BIGINT NOT NULL DEFAULT 0,
    "link" VARCHAR(64) NOT NULL DEFAULT ''
);
CREATE INDEX "idx_memory_chat_link_736bf5" ON "memory_chats" ("link");
CREATE TABLE "memory_off" (
    "digest" VARCHAR(64) NOT NULL PRIMARY KEY,
    "since" REAL NOT NULL
);
CREATE TABLE "messages" (
    "seq" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "instance" VARCHAR(128) NOT NULL,
    "unique_id" VARCHAR(255),
    "message_id" TEXT NOT NULL,
    "author" VARCHAR(16) NOT NULL,
    "user_id" VARCHAR(255) NOT NULL,
    "user_name" TEXT NOT NULL,
    "role" VARCHAR(16) NOT NULL,
    "segments" TEXT NOT NULL,
    "time" REAL NOT NULL,
    "to_bot" INT NOT NULL,
    "from_history" INT NOT NULL,
    "recalled" INT NOT NULL,
    "run_id" VARCHAR(64) NOT NULL,
    "state" VARCHAR(16) NOT NULL,
    "answered_elsewhere" INT NOT NULL DEFAULT 0,
    "decision" VARCHAR(32) NOT NULL DEFAULT '',
    "decision_detail" TEXT NOT NULL DEFAULT '',
    "turn_id" BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT "uid_messages_instanc_a90af0" UNIQUE ("instance", "unique_id")
);
CREATE INDEX "messages_chat_seq" ON "messages" ("chat_key", "seq");
CREATE INDEX "messages_time" ON "messages" ("time");
CREATE TABLE "message_versions" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "seq" BIGINT NOT NULL,
    "segments" TEXT NOT NULL
);
CREATE INDEX "idx_message_ver_seq_68304c" ON "message_versions" ("seq");
CREATE TABLE "model_uses" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "plugin" VARCHAR(128) NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "user_id" VARCHAR(255) NOT NULL,
    "run_id" VARCHAR(64) NOT NULL,
    "model" TEXT NOT NULL,
    "prompt_tokens" BIGINT NOT NULL,
    "cached_tokens" BIGINT NOT NULL,
    "completion_tokens" BIGINT NOT NULL,
    "estimated" INT NOT NULL,
    "cost" REAL NOT NULL,
    "started" REAL NOT NULL,
    "seconds" REAL NOT NULL,
    "price_source" VARCHAR(16) NOT NULL DEFAULT '',
    "role" VARCHAR(16) NOT NULL DEFAULT ''
);
CREATE INDEX "model_uses_started" ON "model_uses" ("started");
CREATE TABLE "memory_notes" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "about_id" VARCHAR(255) NOT NULL,
    "about_name" TEXT NOT NULL,
    "said_by" VARCHAR(255) NOT NULL,
    "kind" VARCHAR(16) NOT NULL,
    "origin" VARCHAR(16) NOT NULL,
    "text" TEXT NOT NULL,
    "source_seq" BIGINT NOT NULL,
    "since" REAL NOT NULL,
    "until" REAL NOT NULL,
    "replaced_by" BIGINT NOT NULL,
    "changed" REAL NOT NULL
);
CREATE INDEX "memory_notes_chat_id" ON "memory_notes" ("chat_key", "id");
CREATE INDEX "memory_notes_changed" ON "memory_notes" ("changed");
CREATE TABLE "partition_owners" (
    "partition" INT NOT NULL PRIMARY KEY,
    "epoch" BIGINT NOT NULL,
    "worker" VARCHAR(255) NOT NULL,
    "taken" REAL NOT NULL,
    "token" VARCHAR(64) NOT NULL DEFAULT ''
);
CREATE TABLE "plugin_data" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "plugin" VARCHAR(128) NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "user_key" VARCHAR(255) NOT NULL,
    "store_key" VARCHAR(255) NOT NULL,
    "value" TEXT NOT NULL,
    CONSTRAINT "uid_plugin_data_plugin_c0ff93" UNIQUE ("plugin", "chat_key", "user_key", "store_key")
);
CREATE TABLE "plugin_reports" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "node" VARCHAR(255) NOT NULL,
    "item" VARCHAR(255) NOT NULL,
    "problem" TEXT NOT NULL,
    "told" REAL NOT NULL,
    CONSTRAINT "uid_plugin_repo_node_007b52" UNIQUE ("node", "item")
);
CREATE TABLE "prompt_parts" (
    "hash" VARCHAR(64) NOT NULL PRIMARY KEY,
    "chat_key" VARCHAR(255) NOT NULL,
    "data" BLOB NOT NULL,
    "used" REAL NOT NULL
);
CREATE INDEX "idx_prompt_part_chat_ke_ba505d" ON "prompt_parts" ("chat_key");
CREATE INDEX "idx_prompt_part_used_270472" ON "prompt_parts" ("used");
CREATE TABLE "prompts" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "turn_id" BIGINT NOT NULL,
    "position" INT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "recipe" TEXT NOT NULL,
    "times" TEXT NOT NULL,
    "error" TEXT NOT NULL,
    CONSTRAINT "uid_prompts_turn_id_4bb136" UNIQUE ("turn_id", "position")
);
CREATE TABLE "runs" (
    "run_id" VARCHAR(64) NOT NULL PRIMARY KEY,
    "chat_key" VARCHAR(255) NOT NULL,
    "turn_id" BIGINT NOT NULL,
    "step" INT NOT NULL,
    "code" TEXT NOT NULL,
    "output" TEXT NOT NULL,
    "stop" TEXT NOT NULL,
    "error" TEXT NOT NULL,
    "started" REAL NOT NULL,
    "seconds" REAL NOT NULL
);
CREATE INDEX "idx_runs_turn_id_c142a3" ON "runs" ("turn_id");
CREATE TABLE "search_blocks" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "number" BIGINT NOT NULL,
    "first_seq" BIGINT NOT NULL,
    "first_time" REAL NOT NULL,
    "last_time" REAL NOT NULL,
    "facts" BLOB NOT NULL,
    "vectors" BLOB NOT NULL,
    "encoded" INT NOT NULL,
    CONSTRAINT "uid_search_bloc_chat_ke_6c9520" UNIQUE ("chat_key", "number"),
    CONSTRAINT "uid_search_bloc_chat_ke_fff72d" UNIQUE ("chat_key", "first_seq")
);
CREATE TABLE "search_changes" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "seq" BIGINT NOT NULL
);
CREATE INDEX "idx_search_chan_chat_ke_c40f45" ON "search_changes" ("chat_key");
CREATE TABLE "search_pages" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "data" BLOB NOT NULL
);
CREATE TABLE "search_segments" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "level" INT NOT NULL,
    "start" BIGINT NOT NULL,
    "count" INT NOT NULL,
    "terms" BIGINT NOT NULL,
    "buckets" INT NOT NULL,
    "first_seq" BIGINT NOT NULL,
    "last_seq" BIGINT NOT NULL,
    CONSTRAINT "uid_search_segm_chat_ke_546ea6" UNIQUE ("chat_key", "start", "level")
);
CREATE TABLE "shared_plugins" (
    "item" VARCHAR(255) NOT NULL PRIMARY KEY,
    "key" VARCHAR(255) NOT NULL,
    "version" TEXT NOT NULL,
    "mark" VARCHAR(64) NOT NULL,
    "archive" VARCHAR(64) NOT NULL,
    "size" BIGINT NOT NULL,
    "record" TEXT NOT NULL,
    "needs" TEXT NOT NULL,
    "abilities" TEXT NOT NULL,
    "wanted" INT NOT NULL,
    "without_data" INT NOT NULL,
    "node" VARCHAR(255) NOT NULL,
    "changed_by" TEXT NOT NULL,
    "changed" REAL NOT NULL,
    "revision" BIGINT NOT NULL
);
CREATE TABLE "statistics" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "period" VARCHAR(8) NOT NULL,
    "dimension" VARCHAR(8) NOT NULL,
    "name" VARCHAR(512) NOT NULL,
    "member" VARCHAR(255) NOT NULL,
    "start" BIGINT NOT NULL,
    "messages" BIGINT NOT NULL,
    "sent" BIGINT NOT NULL,
    "turns" BIGINT NOT NULL,
    "errors" BIGINT NOT NULL,
    "requests" BIGINT NOT NULL,
    "prompt_tokens" BIGINT NOT NULL,
    "cached_tokens" BIGINT NOT NULL,
    "completion_tokens" BIGINT NOT NULL,
    "cost" REAL NOT NULL,
    "calls" BIGINT NOT NULL,
    "call_errors" BIGINT NOT NULL,
    "published_cost" REAL NOT NULL DEFAULT 0,
    "unpriced" BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT "uid_statistics_period_2c044a" UNIQUE ("period", "dimension", "name", "member", "start")
);
CREATE INDEX "statistics_start" ON "statistics" ("period", "dimension", "start");
CREATE TABLE "steps" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "turn_id" BIGINT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "user_id" VARCHAR(255) NOT NULL,
    "position" INT NOT NULL,
    "reply" TEXT NOT NULL,
    "tail" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "prompt_tokens" BIGINT NOT NULL,
    "cached_tokens" BIGINT NOT NULL,
    "completion_tokens" BIGINT NOT NULL,
    "estimated" INT NOT NULL,
    "cost" REAL NOT NULL,
    "started" REAL NOT NULL,
    "seconds" REAL NOT NULL,
    "price_source" VARCHAR(16) NOT NULL DEFAULT '',
    CONSTRAINT "uid_steps_turn_id_dd0627" UNIQUE ("turn_id", "position")
);
CREATE INDEX "steps_started" ON "steps" ("started");
CREATE TABLE "memory_summaries" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "level" INT NOT NULL,
    "from_seq" BIGINT NOT NULL,
    "through_seq" BIGINT NOT NULL,
    "records" INT NOT NULL,
    "recalled" INT NOT NULL,
    "text" TEXT NOT NULL,
    "state" VARCHAR(16) NOT NULL,
    "begun" REAL NOT NULL,
    "ended" REAL NOT NULL,
    "made" REAL NOT NULL,
    CONSTRAINT "uid_memory_summ_chat_ke_92fe12" UNIQUE ("chat_key", "level", "from_seq")
);
CREATE TABLE "timers" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "timer_id" VARCHAR(64) NOT NULL UNIQUE,
    "chat_key" VARCHAR(255) NOT NULL,
    "kind" VARCHAR(16) NOT NULL,
    "state" VARCHAR(16) NOT NULL,
    "text" TEXT NOT NULL,
    "title" TEXT NOT NULL,
    "cron" TEXT NOT NULL,
    "timezone" TEXT NOT NULL,
    "workdays" VARCHAR(16) NOT NULL,
    "due" REAL NOT NULL,
    "told_due" REAL NOT NULL,
    "record_seq" BIGINT NOT NULL,
    "created" REAL NOT NULL
);
CREATE TABLE "tool_calls" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "run_id" VARCHAR(64) NOT NULL,
    "position" INT NOT NULL,
    "name" TEXT NOT NULL,
    "arguments" TEXT NOT NULL,
    "outcome" TEXT NOT NULL,
    "started" REAL NOT NULL,
    "seconds" REAL NOT NULL,
    "result" TEXT NOT NULL DEFAULT '',
    CONSTRAINT "uid_tool_calls_run_id_7da99e" UNIQUE ("run_id", "position")
);
CREATE TABLE "turns" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "running_chat" VARCHAR(255) UNIQUE,
    "trigger_seq" BIGINT NOT NULL,
    "through_seq" BIGINT NOT NULL,
    "user_id" VARCHAR(255) NOT NULL,
    "stop" TEXT NOT NULL,
    "attempts" INT NOT NULL,
    "started" REAL NOT NULL,
    "ended" REAL NOT NULL,
    "counted" INT NOT NULL DEFAULT 0,
    "model" TEXT NOT NULL DEFAULT '',
    "failed" INT NOT NULL DEFAULT 0,
    "times" TEXT NOT NULL DEFAULT '',
    "first_words" REAL
);
CREATE INDEX "turns_chat_times" ON "turns" ("chat_key", "id", "started", "ended", "first_words", "running_chat");
CREATE INDEX "turns_counted" ON "turns" ("counted", "id");
CREATE INDEX "turns_user_id" ON "turns" ("user_id", "id");
CREATE INDEX "turns_model_id" ON "turns" ("model", "id");
CREATE INDEX "turns_failed_id" ON "turns" ("failed", "id");
CREATE TABLE "upgrade_notes" (
    "name" VARCHAR(32) NOT NULL PRIMARY KEY
);
CREATE TABLE "users" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "instance" VARCHAR(128) NOT NULL,
    "user_id" VARCHAR(255) NOT NULL,
    "name" TEXT NOT NULL,
    "first_seen" REAL NOT NULL,
    CONSTRAINT "uid_users_instanc_bfaf70" UNIQUE ("instance", "user_id")
);
CREATE TABLE "waiting" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "kind" VARCHAR(16) NOT NULL,
    "name" VARCHAR(255) NOT NULL,
    "plugin" VARCHAR(128) NOT NULL,
    "chat_key" VARCHAR(255) NOT NULL,
    "user_id" VARCHAR(255) NOT NULL,
    "data" TEXT NOT NULL,
    "created" REAL NOT NULL,
    "until" REAL NOT NULL,
    CONSTRAINT "uid_waiting_kind_35b68a" UNIQUE ("kind", "name")
);
CREATE TABLE "tortoise_migrations" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    "app" VARCHAR(255) NOT NULL,
    "name" VARCHAR(255) NOT NULL,
    "applied_at" TIMESTAMP NOT NULL,
    CONSTRAINT "uid_tortoise_mi_app_3803a5" UNIQUE ("app", "name")
);
