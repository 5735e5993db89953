-- The whole current schema of an appliance file. Read this first.
--
-- Words are those of the README's glossary. Times (`*_at`) are integer milliseconds since 1970 UTC; durations end in `_s` (seconds).
-- `commit_no` is the commit number of the operation that wrote the row: the order of everything in this file.
-- `id TEXT` is a public id; `seq` is the order of creation and never leaves this file. Digests are the 32 bytes of SHA-256.
--
-- Four kinds of table stand here, in this order, and are never mixed:
--   content   immutable bytes and listings (blob, pack, large, listing, names)
--   history   append-only rows that say what was desired (version, switch, config, terms, generation, source)
--   standing  one row per thing that says where it stands now (file, plan, server, deployment, state, memory, uses)
--   evidence  what was reported or asked (run, run_leg, run_output, run_log, signal, claim, audit, idempotency). Retention may purge what is
--             over: never an open run and its claim, nor one that `state` or `stock_item` names
-- `uses` and `need` can be rebuilt from the rest; everything else is the record.
--
-- STRICT everywhere. WITHOUT ROWID only for narrow natural keys: with data in the tree a read is many times slower.
-- auto_vacuum=INCREMENTAL and journal_mode=WAL are set by store/database.py at the birth of the file, in that order.

------------------------------------------------------------------------------------------------------------ the file itself

CREATE TABLE file (
  one           INTEGER PRIMARY KEY CHECK (one = 1),
  epoch_number  INTEGER NOT NULL CHECK (epoch_number >= 1),  -- a restore or a promotion makes a new epoch
  epoch_id      TEXT    NOT NULL,
  key_id        TEXT    NOT NULL,                            -- the key file beside the database must carry this id
  last_commit   INTEGER NOT NULL,                            -- greatest commit number given out in an acknowledged batch
  uptime_ms     INTEGER NOT NULL DEFAULT 0,                  -- deadlines count this, not differences of wall clocks
  grace_s       INTEGER NOT NULL DEFAULT 86400 CHECK (grace_s >= 1),       -- silence after a run's time limit until it is lost: our agent ...
  delete_s      INTEGER NOT NULL DEFAULT 14400 CHECK (delete_s >= 1),      -- how long ready DELETE work may take
  retry_s       INTEGER NOT NULL DEFAULT 10 CHECK (retry_s >= 1),          -- wait before a second attempt; doubles with each
  stock_grace_s INTEGER NOT NULL DEFAULT 14400 CHECK (stock_grace_s >= 1), -- ... and a stock one
  url           TEXT,                                        -- base of every URL we write; null: the listener's own
  created_at    INTEGER NOT NULL
) STRICT;

------------------------------------------------------------------------------------------------------------ content

-- Small blobs, some 64 KiB of content in one zstd frame, near-alike files side by side.
CREATE TABLE pack (
  id    INTEGER PRIMARY KEY,
  size  INTEGER NOT NULL CHECK (size > 0),                   -- bytes when unpacked
  data  BLOB    NOT NULL
) STRICT;

-- A large blob lies in rows of 1 MiB. Until `complete` it belongs to an upload; what an upload left behind is removed at start-up.
CREATE TABLE large (
  id        INTEGER PRIMARY KEY,
  size      INTEGER NOT NULL,
  complete  INTEGER NOT NULL DEFAULT 0 CHECK (complete IN (0, 1))
) STRICT;

CREATE TABLE large_part (
  large     INTEGER NOT NULL REFERENCES large ON DELETE CASCADE,
  n         INTEGER NOT NULL CHECK (n >= 0),
  encoding  INTEGER NOT NULL CHECK (encoding IN (0, 1)),     -- 0 as it is, 1 zstd
  data      BLOB    NOT NULL,
  PRIMARY KEY (large, n)
) STRICT;

-- Immutable bytes. Exactly one place: a slice of a pack, or a large. RESTRICT below means: a blob that is named cannot go.
CREATE TABLE blob (
  id          INTEGER PRIMARY KEY,
  digest      BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32),
  size        INTEGER NOT NULL CHECK (size >= 0),
  pack        INTEGER REFERENCES pack,
  start       INTEGER CHECK (start >= 0),
  large       INTEGER UNIQUE REFERENCES large,
  created_at  INTEGER NOT NULL,                              -- garbage collection leaves a grace age
  CHECK ((pack IS NULL) <> (large IS NULL)),
  CHECK ((pack IS NULL) = (start IS NULL))
) STRICT;
CREATE INDEX blob_by_pack ON blob (pack) WHERE pack IS NOT NULL;  -- which packs are mostly dead

-- A manifest as stored: whole, or as a delta on one whole listing (never more than one step to undo).
CREATE TABLE listing (
  id       INTEGER PRIMARY KEY,
  digest   BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32), -- digest of the canonical manifest
  base     INTEGER REFERENCES listing,
  entries  INTEGER NOT NULL,
  bytes    INTEGER NOT NULL,                                 -- sum of the sizes of its entries
  data     BLOB    NOT NULL                                  -- zstd; entries by blob id, see store/listings.py
) STRICT;
CREATE INDEX listing_by_base ON listing (base) WHERE base IS NOT NULL;

-- Which blobs a listing itself adds: for a whole one all of its blobs, for a delta those its base does not name.
-- The foreign key is the proof that every blob of a version is there, and these rows are the roots of garbage collection.
CREATE TABLE names (
  listing  INTEGER NOT NULL REFERENCES listing ON DELETE CASCADE,
  blob     INTEGER NOT NULL REFERENCES blob,
  PRIMARY KEY (listing, blob)
) STRICT, WITHOUT ROWID;
CREATE INDEX names_by_blob ON names (blob);

------------------------------------------------------------------------------------------------------------ plans

-- A deleted plan keeps its row (and a new plan of that name is another row), so deleting is one small transaction; its versions and
-- switches are swept later, in small steps.
CREATE TABLE plan (
  id              INTEGER PRIMARY KEY,
  name            TEXT    NOT NULL,
  commit_no       INTEGER NOT NULL,
  created_at      INTEGER NOT NULL,
  deleted_commit  INTEGER,
  deleted_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX plan_by_name ON plan (name) WHERE deleted_commit IS NULL;

-- A manifest pushed to a plan. Pushing an equal directory again gives the version there is.
CREATE TABLE version (
  plan        INTEGER NOT NULL REFERENCES plan,
  number      INTEGER NOT NULL CHECK (number >= 1),
  listing     INTEGER NOT NULL REFERENCES listing,
  commit_no   INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  by          TEXT    NOT NULL,
  PRIMARY KEY (plan, number),
  UNIQUE (plan, listing)
) STRICT, WITHOUT ROWID;
CREATE INDEX version_by_listing ON version (listing);

-- Which version was current from when. The primary key is the compare-and-set: of two who saw serial 7 only one can write 8.
CREATE TABLE switch (
  plan       INTEGER NOT NULL,
  serial     INTEGER NOT NULL CHECK (serial >= 1),
  version    INTEGER NOT NULL,
  back_to    INTEGER,                                        -- a rollback: the serial whose version it restores
  forced     INTEGER NOT NULL DEFAULT 0 CHECK (forced IN (0, 1)), -- overruled a newer switch than the one it was based on
  commit_no  INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  by         TEXT    NOT NULL,
  PRIMARY KEY (plan, serial),
  FOREIGN KEY (plan, version) REFERENCES version (plan, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX switch_by_version ON switch (plan, version);

-- The one truth for "current".
CREATE VIEW current AS
  SELECT plan, serial, version, back_to, forced, commit_no, at, by FROM switch AS s
  WHERE serial = (SELECT max(serial) FROM switch WHERE plan = s.plan);

CREATE TRIGGER version_is_immutable BEFORE UPDATE ON version BEGIN SELECT raise(ABORT, 'versions are immutable'); END;
CREATE TRIGGER version_is_kept BEFORE DELETE ON version
  WHEN (SELECT deleted_commit FROM plan WHERE id = OLD.plan) IS NULL
  BEGIN SELECT raise(ABORT, 'versions of a living plan are kept'); END;
CREATE TRIGGER switch_is_append_only BEFORE UPDATE ON switch BEGIN SELECT raise(ABORT, 'the switch log is append-only'); END;
CREATE TRIGGER switch_is_kept BEFORE DELETE ON switch
  WHEN (SELECT deleted_commit FROM plan WHERE id = OLD.plan) IS NULL
  BEGIN SELECT raise(ABORT, 'the switch log is append-only'); END;

------------------------------------------------------------------------------------------------------------ servers and access

-- One managed machine. `id` is any text up to 36 characters, since the Heat edge may name a server that was never added: such a row is
-- `unenrolled`. An enrolled one speaks to our agent or to a stock agent, never both.
CREATE TABLE server (
  seq             INTEGER PRIMARY KEY,
  id              TEXT    NOT NULL UNIQUE CHECK (length(id) BETWEEN 1 AND 36),
  name            TEXT    NOT NULL,
  kind            TEXT    NOT NULL CHECK (kind IN ('unenrolled', 'agent', 'stock')),
  changed         INTEGER NOT NULL,    -- commit of the last operator, switch or stack change that made or withdrew a generation here
  rotation        INTEGER NOT NULL DEFAULT 1, -- part of every URL secret of this server; raising it revokes them all
  -- who last spoke with this server's token, as accepted: see design "Who is asking"
  machine         TEXT,                -- instance parts; null: not known
  root            TEXT,
  cloud           TEXT,
  agent_state     TEXT,
  boot            TEXT,
  boots           TEXT NOT NULL DEFAULT '[]', -- JSON: boot ids seen before; one that returns means a clone
  rival           TEXT,                -- JSON: another agent state that spoke while the known one was alive, and when
  journal         INTEGER,             -- greatest journal counter seen of that agent state
  doubted_at      INTEGER,             -- since when only lower ones come (a request may be overtaken by a later one); null: they do not
  agent_version   TEXT,
  hooks           TEXT,                -- JSON list of groups
  joined_commit   INTEGER,
  trouble         TEXT,                -- JSON: what `keep` or `reset` must decide (other instance, reverted, clone); null: none
  commit_no       INTEGER NOT NULL,
  created_at      INTEGER NOT NULL,
  deleted_commit  INTEGER,
  deleted_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX server_by_name ON server (name) WHERE deleted_commit IS NULL;

CREATE TABLE label (
  server  TEXT NOT NULL REFERENCES server (id),
  label   TEXT NOT NULL,
  PRIMARY KEY (server, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX label_by_label ON label (label, server);

-- Advisory, written with a later batch and never waited for.
CREATE TABLE seen (
  server     TEXT    PRIMARY KEY REFERENCES server (id),
  at         INTEGER NOT NULL,         -- last request of its agent
  delivered  INTEGER                   -- commit number of the newest snapshot its agent was handed
) STRICT, WITHOUT ROWID;

-- Credentials, hashed. `agent` and `join` are bound to one server.
CREATE TABLE token (
  id           TEXT    PRIMARY KEY,
  secret       BLOB    NOT NULL UNIQUE CHECK (length(secret) = 32), -- SHA-256 of the random token
  role         TEXT    NOT NULL CHECK (role IN ('admin', 'operator', 'viewer', 'agent', 'join')),
  server       TEXT    REFERENCES server (id),
  name         TEXT    NOT NULL,       -- whom it was given to; appears in `by` columns
  commit_no    INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  uses_left    INTEGER CHECK (uses_left >= 0), -- join tokens only
  revoked_at   INTEGER,
  CHECK ((role IN ('agent', 'join')) OR server IS NULL),
  CHECK (role <> 'agent' OR server IS NOT NULL)
) STRICT;
CREATE INDEX token_by_server ON token (server) WHERE server IS NOT NULL;

-- Who a join token was exchanged for: that agent state may ask again when the answer was lost.
CREATE TABLE join_use (
  token        TEXT    NOT NULL REFERENCES token (id),
  agent_state  TEXT    NOT NULL,
  server       TEXT    NOT NULL REFERENCES server (id),
  at           INTEGER NOT NULL,
  PRIMARY KEY (token, agent_state)
) STRICT, WITHOUT ROWID;

------------------------------------------------------------------------------------------------------------ configs and deployments: history

-- What to run; immutable. Either `body` (any JSON) or a reference to a plan's file. Name and group may be null (Heat allows it).
CREATE TABLE config (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  name        TEXT,
  "group"     TEXT,
  body        TEXT    CHECK (body IS NULL OR json_valid(body)),
  plan        INTEGER REFERENCES plan,
  path        TEXT,                    -- the plan's file whose text is the body
  files       TEXT,                    -- JSON list of {"plan": key, "prefix"} to be placed beside it
  inputs      TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(inputs)),   -- declared: name, type, default, triggers, ...
  outputs     TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(outputs)),
  options     TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(options)),
  commit_no   INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  by          TEXT    NOT NULL,
  hidden_at   INTEGER,                 -- deleted by a user; kept as long as history refers to it
  CHECK ((plan IS NULL) = (path IS NULL)),
  CHECK (plan IS NULL OR body IS NULL)
) STRICT;
CREATE INDEX config_by_plan ON config (plan) WHERE plan IS NOT NULL;
CREATE INDEX config_shown ON config (seq) WHERE hidden_at IS NULL;

-- One config bound to one server. What may change about it stands in `terms` and `generation`; where it stands, in `state`.
CREATE TABLE deployment (
  seq              INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  server           TEXT    NOT NULL REFERENCES server (id),
  commit_no        INTEGER NOT NULL,
  created_at       INTEGER NOT NULL,
  by               TEXT    NOT NULL,
  deleted_commit   INTEGER,            -- a tombstone from here on: 410, and the agent is told
  deleted_at       INTEGER,
  acknowledged_at  INTEGER             -- the agent has forgotten it: retention may start
) STRICT;
CREATE INDEX deployment_by_server ON deployment (server, seq) WHERE deleted_commit IS NULL;
CREATE INDEX tombstone_by_server ON deployment (server, seq) WHERE deleted_commit IS NOT NULL AND acknowledged_at IS NULL;

-- What is desired of a deployment; append-only, `state.terms` says which holds. Most changes of it make a generation; those that need not
-- run (name, policy, an input that does not trigger) do not, and the next run sees them all the same.
-- Names are not unique per server in the file: natively that is refused, the Heat edge allows it, and null too.
-- `inputs` are what was given, by name: {"value": ...} or {"sealed": ...}.
CREATE TABLE terms (
  deployment    TEXT    NOT NULL REFERENCES deployment (id),
  number        INTEGER NOT NULL CHECK (number >= 1),
  name          TEXT,
  policy        TEXT    NOT NULL CHECK (policy IN ('on-change', 'once', 'per-boot', 'always')),
  interval_s    INTEGER CHECK (interval_s >= 30),
  timeout_s     INTEGER CHECK (timeout_s >= 1),              -- null: none
  max_attempts  INTEGER NOT NULL DEFAULT 1 CHECK (max_attempts >= 1),
  actions       TEXT    NOT NULL DEFAULT '["CREATE","UPDATE"]' CHECK (json_valid(actions)), -- those it has work for
  config        TEXT    NOT NULL REFERENCES config (id),
  inputs        TEXT    NOT NULL CHECK (json_valid(inputs)),
  needs         TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(needs)), -- JSON list of {"deployment", "follow"}
  commit_no     INTEGER NOT NULL,
  by            TEXT    NOT NULL,
  PRIMARY KEY (deployment, number),
  CHECK (interval_s IS NULL OR policy = 'always')
) STRICT;
CREATE INDEX terms_by_config ON terms (config);

-- One desired state of a deployment that a machine must reach; append-only. `terms` are those it was made by.
CREATE TABLE generation (
  seq           INTEGER PRIMARY KEY,
  id            TEXT    NOT NULL UNIQUE,
  deployment    TEXT    NOT NULL REFERENCES deployment (id),
  number        INTEGER NOT NULL CHECK (number >= 1),
  action        TEXT    NOT NULL CHECK (action IN ('CREATE', 'UPDATE', 'DELETE', 'SUSPEND', 'RESUME')),
  terms         INTEGER NOT NULL,
  fingerprint   BLOB    NOT NULL CHECK (length(fingerprint) = 32), -- keyed digest of what makes a run necessary
  parts         TEXT    NOT NULL CHECK (json_valid(parts)),        -- its keyed parts by name: which of them changed is what `why` says
  cause         TEXT    NOT NULL CHECK (cause IN ('create', 'update', 'switch', 'rerun', 'reset', 'follow', 'stack', 'heat', 'undo', 'delete', 'suspend',
                'resume')),
  detail        TEXT,                  -- one line for people: what changed
  action_start  INTEGER NOT NULL,      -- input deploy_action_start: rises strictly per deployment, whatever the clock does
  commit_no     INTEGER NOT NULL,
  created_at    INTEGER NOT NULL,
  by            TEXT    NOT NULL,
  UNIQUE (deployment, number),
  FOREIGN KEY (deployment, terms) REFERENCES terms (deployment, number)
) STRICT;

-- What of plans a generation was resolved to: a file, or everything below a path (`digest` is then that of the subtree).
CREATE TABLE source (
  generation  TEXT    NOT NULL REFERENCES generation (id),
  plan        INTEGER NOT NULL REFERENCES plan,
  kind        TEXT    NOT NULL CHECK (kind IN ('file', 'tree')),
  path        TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  digest      BLOB    NOT NULL CHECK (length(digest) = 32),
  PRIMARY KEY (generation, plan, kind, path)
) STRICT, WITHOUT ROWID;

-- Listings kept, with all their blobs, because a generation that may still run was resolved to them.
CREATE TABLE pin (
  generation  TEXT    NOT NULL REFERENCES generation (id),
  listing     INTEGER NOT NULL REFERENCES listing,
  PRIMARY KEY (generation, listing)
) STRICT, WITHOUT ROWID;
CREATE INDEX pin_by_listing ON pin (listing);

CREATE TRIGGER terms_is_append_only BEFORE UPDATE ON terms BEGIN SELECT raise(ABORT, 'terms are append-only'); END;
CREATE TRIGGER generation_is_append_only BEFORE UPDATE ON generation BEGIN SELECT raise(ABORT, 'generations are append-only'); END;
CREATE TRIGGER source_is_append_only BEFORE UPDATE ON source BEGIN SELECT raise(ABORT, 'generations are append-only'); END;
CREATE TRIGGER config_is_immutable
  BEFORE UPDATE OF id, name, "group", body, plan, path, files, inputs, outputs, options ON config
  BEGIN SELECT raise(ABORT, 'configs are immutable'); END;

------------------------------------------------------------------------------------------------------------ deployments: standing

-- Where a deployment stands. Status is Heat's; the phase says where an IN_PROGRESS one stands, the reason why a FAILED one failed.
CREATE TABLE state (
  deployment   TEXT    PRIMARY KEY REFERENCES deployment (id),
  generation   TEXT    NOT NULL REFERENCES generation (id),  -- the current one
  terms        INTEGER NOT NULL,
  status       TEXT    NOT NULL CHECK (status IN ('IN_PROGRESS', 'COMPLETE', 'FAILED')),
  phase        TEXT    CHECK (phase IN ('blocked', 'pending', 'delivered', 'granted', 'running', 'rebooting', 'overdue')),
  reason       TEXT    CHECK (reason IN ('exit', 'timeout', 'error-output', 'no-hook', 'invalid', 'interrupted', 'cancelled', 'lost', 'by-hand')),
  sentence     TEXT    NOT NULL,       -- for people
  since        INTEGER NOT NULL,       -- ms: when status or phase last moved
  commit_no    INTEGER NOT NULL,       -- ... and in which commit; at or below seen.delivered a pending one shows as delivered
  held         INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1)), -- `once`: changed since it ran
  attempt      INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1), -- of this generation; never the same twice
  tries        INTEGER NOT NULL DEFAULT 1 CHECK (tries >= 1),   -- which of `max_attempts` that is; counted anew at each boot for per-boot
  next_at      INTEGER,                -- this attempt waits until then, in ms of file.uptime_ms; null: it does not
  run          TEXT,                   -- the run that status and phase are about; retention spares it
  repeating    TEXT,                   -- run id of a repeat that is running now, beside the status
  deadline     INTEGER,                -- of ready DELETE work, in ms of file.uptime_ms
  heat         TEXT CHECK (heat IS NULL OR json_valid(heat)), -- Heat's own fields, verbatim, where its edge was used
  FOREIGN KEY (deployment, terms) REFERENCES terms (deployment, number),
  CHECK ((status = 'IN_PROGRESS') = (phase IS NOT NULL)),
  CHECK ((status = 'FAILED') = (reason IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX state_unfinished ON state (status, phase) WHERE status <> 'COMPLETE';
CREATE INDEX state_deadline ON state (deadline) WHERE deadline IS NOT NULL;
CREATE INDEX state_next_at ON state (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX state_by_generation ON state (generation);

-- What must be remembered for as long as the deployment lives, whatever retention purges. Wiped by `server reset` only.
CREATE TABLE memory (
  deployment            TEXT    PRIMARY KEY REFERENCES deployment (id),
  completed_generation  TEXT,          -- the last one a machine completed
  completed             BLOB,          -- its fingerprint: "the machine never left it" compares with this
  "left"                INTEGER NOT NULL DEFAULT 0 CHECK ("left" IN (0, 1)), -- a run ended otherwise since: the machine may have left it
  must_run              INTEGER NOT NULL DEFAULT 1 CHECK (must_run IN (0, 1)), -- a rerun or reset (or the first generation) waits to be granted
  substantial           TEXT,          -- the last generation that was not complete at once (what `follow` looks at)
  unknown_generation    TEXT,          -- the machine ran something this file does not know (an older file was restored)
  started               INTEGER NOT NULL DEFAULT 0 CHECK (started IN (0, 1)),  -- ever started on this instance (`once`)
  last_run              TEXT,          -- last started run: id, generation, boot and the `changed` it acted on
  last_generation       TEXT,
  last_boot             TEXT,
  last_changed          INTEGER
) STRICT, WITHOUT ROWID;

-- What the current terms depend on.
CREATE TABLE need (
  needs       TEXT    NOT NULL REFERENCES deployment (id),
  deployment  TEXT    NOT NULL REFERENCES deployment (id),
  follow      INTEGER NOT NULL DEFAULT 0 CHECK (follow IN (0, 1)),
  PRIMARY KEY (needs, deployment),
  CHECK (needs <> deployment)
) STRICT, WITHOUT ROWID;
CREATE INDEX need_by_deployment ON need (deployment);

-- Derived: which plan paths the current generations use, so that a switch looks only at what it changes. `tree`: everything below path.
CREATE TABLE uses (
  plan        INTEGER NOT NULL REFERENCES plan,
  path        TEXT    NOT NULL,
  kind        TEXT    NOT NULL CHECK (kind IN ('file', 'tree')),
  deployment  TEXT    NOT NULL REFERENCES deployment (id),
  PRIMARY KEY (plan, path, kind, deployment)
) STRICT, WITHOUT ROWID;
CREATE INDEX uses_by_deployment ON uses (deployment);

-- The item a stock agent was last handed for a deployment, kept as it was until the next one is ready. Sealed, since it holds inputs in
-- clear; the URL to report to is put in when it is served.
CREATE TABLE stock_item (
  deployment  TEXT PRIMARY KEY REFERENCES deployment (id),
  run         TEXT NOT NULL,
  sealed      TEXT NOT NULL
) STRICT;

------------------------------------------------------------------------------------------------------------ evidence

-- One granted or journaled execution. Ids are minted by the agent, or by us for a stock agent. `generation` has no foreign key: a report
-- of a generation this file does not know (an older file was restored) is evidence too.
CREATE TABLE run (
  seq             INTEGER PRIMARY KEY,
  id              TEXT    NOT NULL UNIQUE,
  server          TEXT    NOT NULL REFERENCES server (id),
  deployment      TEXT    NOT NULL,
  generation      TEXT    NOT NULL,
  terms           INTEGER,             -- those it was granted (or reported) under: their output declarations judge it
  attempt         INTEGER NOT NULL DEFAULT 1,
  leg             INTEGER NOT NULL DEFAULT 1,  -- the last one
  repeat          TEXT    CHECK (repeat IN ('boot', 'agent-start', 'changed', 'interval')), -- null: a granted run
  stands          TEXT    NOT NULL CHECK (stands IN ('granted', 'running', 'rebooting', 'ended', 'released')),
  status          TEXT    CHECK (status IN ('COMPLETE', 'FAILED')),
  reason          TEXT,
  sentence        TEXT,
  status_code     INTEGER,
  after           TEXT,                -- JSON list of the generations it was granted after
  instance        TEXT,                -- JSON, as sent
  agent_state     TEXT,
  boot            TEXT,
  changed         INTEGER,
  granted_at      INTEGER,
  granted_commit  INTEGER,
  owed            INTEGER NOT NULL DEFAULT 0 CHECK (owed IN (0, 1)), -- it was granted for a waiting rerun; a release gives that back
  started_at      INTEGER,             -- when the report arrived; the machine's own clock is in the signal
  ended_at        INTEGER,
  ended_commit    INTEGER,
  due             INTEGER,             -- in ms of file.uptime_ms: silent until then, it is overdue; null: it is, or may take any time
  deadline        INTEGER,             -- ... it is lost
  cancel          INTEGER NOT NULL DEFAULT 0 CHECK (cancel IN (0, 1)), -- a person asked for its end, and its machine has not reported it yet
  effect          TEXT NOT NULL DEFAULT 'recorded' CHECK (effect IN ('recorded', 'none')), -- of its end on the deployment
  effect_why      TEXT,
  CHECK ((stands = 'ended') = (status IS NOT NULL))
) STRICT;
CREATE INDEX run_by_deployment ON run (deployment, seq);
CREATE INDEX run_by_generation ON run (generation, seq);
CREATE INDEX run_open ON run (server) WHERE stands IN ('granted', 'running', 'rebooting');
CREATE INDEX run_open_by_deployment ON run (deployment) WHERE stands IN ('granted', 'running', 'rebooting');
CREATE INDEX run_cancel ON run (server) WHERE cancel = 1;
CREATE INDEX run_due ON run (due) WHERE due IS NOT NULL;
CREATE INDEX run_deadline ON run (deadline) WHERE deadline IS NOT NULL;
-- At most one start per grant: a second grant of one attempt is refused by the file itself.
CREATE UNIQUE INDEX run_grant ON run (generation, attempt) WHERE granted_commit IS NOT NULL AND stands <> 'released';

-- A run that reboots its machine goes on as the next leg.
CREATE TABLE run_leg (
  run         TEXT    NOT NULL REFERENCES run (id),
  leg         INTEGER NOT NULL CHECK (leg >= 1),
  boot        TEXT,
  started_at  INTEGER NOT NULL,
  ended_at    INTEGER,
  PRIMARY KEY (run, leg)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_output (
  run        TEXT PRIMARY KEY REFERENCES run (id),
  outputs    TEXT NOT NULL CHECK (json_valid(outputs)), -- declared and undeclared named outputs
  stdout     TEXT,
  stderr     TEXT,
  sizes      TEXT NOT NULL DEFAULT '{}',                -- whole sizes in bytes
  truncated  TEXT NOT NULL DEFAULT '[]'                 -- names that were cut
) STRICT;

-- Numbered chunks of a run's output.
CREATE TABLE run_log (
  run     TEXT    NOT NULL REFERENCES run (id),
  n       INTEGER NOT NULL,
  stream  TEXT    NOT NULL CHECK (stream IN ('stdout', 'stderr')),
  at      INTEGER NOT NULL,
  text    TEXT    NOT NULL,
  PRIMARY KEY (run, n)
) STRICT;

-- What was answered to a run id; the same id always gets the same answer.
CREATE TABLE claim (
  run         TEXT    PRIMARY KEY,
  server      TEXT    NOT NULL REFERENCES server (id),
  deployment  TEXT    NOT NULL,
  generation  TEXT    NOT NULL,
  attempt     INTEGER NOT NULL,
  answer      TEXT    NOT NULL CHECK (answer IN ('granted', 'refused')),
  why         TEXT    CHECK (why IN ('superseded', 'blocked', 'cancelled', 'claimed', 'other-instance', 'deleted')),
  message     TEXT,
  after       TEXT    NOT NULL DEFAULT '[]',
  commit_no   INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  CHECK ((answer = 'refused') = (why IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX claim_by_at ON claim (at);

-- Every report as it came, with what it did. The unique key makes a repeated signal one row.
CREATE TABLE signal (
  seq        INTEGER PRIMARY KEY,
  run        TEXT    NOT NULL REFERENCES run (id),
  kind       TEXT    NOT NULL CHECK (kind IN ('started', 'log', 'finished', 'rebooting', 'released')),
  leg        INTEGER NOT NULL DEFAULT 1,
  n          INTEGER NOT NULL DEFAULT 0,
  body       TEXT    NOT NULL,                          -- JSON, without the large texts
  effect     TEXT    NOT NULL CHECK (effect IN ('recorded', 'none')),
  why        TEXT,
  commit_no  INTEGER NOT NULL,
  at         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX signal_once ON signal (run, leg, kind, n) WHERE effect = 'recorded';
CREATE INDEX signal_by_run ON signal (run, seq);

-- Who did what. Append-only but for retention, which deletes from the old end.
CREATE TABLE audit (
  seq        INTEGER PRIMARY KEY,
  commit_no  INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  by         TEXT    NOT NULL,
  verb       TEXT    NOT NULL,
  object     TEXT    NOT NULL,
  detail     TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(detail))
) STRICT;
CREATE INDEX audit_by_object ON audit (object, seq);
CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit BEGIN SELECT raise(ABORT, 'the audit log is append-only'); END;

-- Answers to requests that carried an Idempotency-Key, written in the same transaction as what they did.
CREATE TABLE idempotency (
  who      TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  request  BLOB    NOT NULL,           -- digest of method, path and body
  status   INTEGER NOT NULL,
  body     BLOB,                       -- null: the answer held a secret and is not kept
  at       INTEGER NOT NULL,
  PRIMARY KEY (who, key)
) STRICT;
CREATE INDEX idempotency_by_at ON idempotency (at);

PRAGMA application_id = 1097887849;  -- 'Appi'
PRAGMA user_version = 1;
