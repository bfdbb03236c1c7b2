//! The columns of the system tables, as PostgreSQL 15 has them: `name:type`, `?` where NULL is
//! allowed.
//!
//! Types: `o` an object id, `t` text of any kind (names, lists, trees), `b` boolean, `s` `i` `l`
//! integers by width, `f` a float, `z` a timestamp with time zone, `d` an interval, `A` smallint[],
//! `T` text[], `v` a vector of column numbers.

/// One table: its schema, its name, its id, its columns.
pub(super) type Layout = (&'static str, &'static str, u32, &'static str);

pub(super) const LAYOUTS: &[Layout] = &[
    ("pg_catalog", "pg_am", 2601, "oid:o amname:t amhandler:o amtype:t"),
    (
        "pg_catalog",
        "pg_amop",
        2602,
        "oid:o amopfamily:o amoplefttype:o amoprighttype:o amopstrategy:s amoppurpose:t amopopr:o amopmethod:o \
         amopsortfamily:o",
    ),
    (
        "pg_catalog",
        "pg_amproc",
        2603,
        "oid:o amprocfamily:o amproclefttype:o amprocrighttype:o amprocnum:s amproc:o",
    ),
    ("pg_catalog", "pg_attrdef", 2604, "oid:o adrelid:o adnum:s adbin:t"),
    (
        "pg_catalog",
        "pg_attribute",
        1249,
        "attrelid:o attname:t atttypid:o attstattarget:i attlen:s attnum:s attndims:i attcacheoff:i atttypmod:i \
         attbyval:b attalign:t attstorage:t attcompression:t attnotnull:b atthasdef:b atthasmissing:b attidentity:t \
         attgenerated:t attisdropped:b attislocal:b attinhcount:i attcollation:o attacl:T? attoptions:T? \
         attfdwoptions:T? attmissingval:t?",
    ),
    ("pg_catalog", "pg_auth_members", 1261, "roleid:o member:o grantor:o admin_option:b"),
    (
        "pg_catalog",
        "pg_authid",
        1260,
        "oid:o rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b \
         rolbypassrls:b rolconnlimit:i rolpassword:t? rolvaliduntil:z?",
    ),
    (
        "pg_catalog",
        "pg_cast",
        2605,
        "oid:o castsource:o casttarget:o castfunc:o castcontext:t castmethod:t",
    ),
    (
        "pg_catalog",
        "pg_class",
        1259,
        "oid:o relname:t relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o \
         relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence:t relkind:t \
         relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b \
         relispopulated:b relreplident:t relispartition:b relrewrite:o relfrozenxid:o relminmxid:o relacl:T? \
         reloptions:T? relpartbound:t?",
    ),
    (
        "pg_catalog",
        "pg_collation",
        3456,
        "oid:o collname:t collnamespace:o collowner:o collprovider:t collisdeterministic:b collencoding:i \
         collcollate:t? collctype:t? colliculocale:t? collversion:t?",
    ),
    (
        "pg_catalog",
        "pg_constraint",
        2606,
        "oid:o conname:t connamespace:o contype:t condeferrable:b condeferred:b convalidated:b conrelid:o contypid:o \
         conindid:o conparentid:o confrelid:o confupdtype:t confdeltype:t confmatchtype:t conislocal:b coninhcount:i \
         connoinherit:b conkey:A? confkey:A? conpfeqop:t? conppeqop:t? conffeqop:t? confdelsetcols:t? conexclop:t? \
         conbin:t?",
    ),
    (
        "pg_catalog",
        "pg_conversion",
        2607,
        "oid:o conname:t connamespace:o conowner:o conforencoding:i contoencoding:i conproc:o \
         condefault:b",
    ),
    (
        "pg_catalog",
        "pg_database",
        1262,
        "oid:o datname:t datdba:o encoding:i datlocprovider:t datistemplate:b datallowconn:b datconnlimit:i \
         datfrozenxid:o datminmxid:o dattablespace:o datcollate:t datctype:t daticulocale:t? datcollversion:t? \
         datacl:T?",
    ),
    ("pg_catalog", "pg_db_role_setting", 2964, "setdatabase:o setrole:o setconfig:T?"),
    (
        "pg_catalog",
        "pg_default_acl",
        826,
        "oid:o defaclrole:o defaclnamespace:o defaclobjtype:t defaclacl:T",
    ),
    (
        "pg_catalog",
        "pg_depend",
        2608,
        "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:t",
    ),
    ("pg_catalog", "pg_description", 2609, "objoid:o classoid:o objsubid:i description:t"),
    ("pg_catalog", "pg_enum", 3501, "oid:o enumtypid:o enumsortorder:f enumlabel:t"),
    (
        "pg_catalog",
        "pg_event_trigger",
        3466,
        "oid:o evtname:t evtevent:t evtowner:o evtfoid:o evtenabled:t evttags:T?",
    ),
    (
        "pg_catalog",
        "pg_extension",
        3079,
        "oid:o extname:t extowner:o extnamespace:o extrelocatable:b extversion:t extconfig:T? extcondition:T?",
    ),
    (
        "pg_catalog",
        "pg_foreign_data_wrapper",
        2328,
        "oid:o fdwname:t fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:T? fdwoptions:T?",
    ),
    (
        "pg_catalog",
        "pg_foreign_server",
        1417,
        "oid:o srvname:t srvowner:o srvfdw:o srvtype:t? srvversion:t? srvacl:T? srvoptions:T?",
    ),
    ("pg_catalog", "pg_foreign_table", 3118, "ftrelid:o ftserver:o ftoptions:T?"),
    (
        "pg_catalog",
        "pg_index",
        2610,
        "indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indnullsnotdistinct:b indisprimary:b \
         indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b \
         indisreplident:b indkey:v indcollation:t indclass:v indoption:v indexprs:t? indpred:t?",
    ),
    (
        "pg_catalog",
        "pg_indexes",
        12043,
        "schemaname:t? tablename:t? indexname:t? tablespace:t? indexdef:t?",
    ),
    ("pg_catalog", "pg_inherits", 2611, "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b"),
    ("pg_catalog", "pg_init_privs", 3394, "objoid:o classoid:o objsubid:i privtype:t initprivs:T"),
    (
        "pg_catalog",
        "pg_language",
        2612,
        "oid:o lanname:t lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o lanvalidator:o lanacl:T?",
    ),
    ("pg_catalog", "pg_largeobject_metadata", 2995, "oid:o lomowner:o lomacl:T?"),
    (
        "pg_catalog",
        "pg_locks",
        12073,
        "locktype:t? database:o? relation:o? page:i? tuple:s? virtualxid:t? transactionid:o? classid:l? objid:l? \
         objsubid:s? virtualtransaction:t? pid:i? mode:t? granted:b fastpath:b waitstart:z?",
    ),
    (
        "pg_catalog",
        "pg_matviews",
        12038,
        "schemaname:t? matviewname:t? matviewowner:t? tablespace:t? hasindexes:b ispopulated:b definition:t?",
    ),
    ("pg_catalog", "pg_namespace", 2615, "oid:o nspname:t nspowner:o nspacl:T?"),
    (
        "pg_catalog",
        "pg_opclass",
        2616,
        "oid:o opcmethod:o opcname:t opcnamespace:o opcowner:o opcfamily:o opcintype:o \
         opcdefault:b opckeytype:o",
    ),
    (
        "pg_catalog",
        "pg_operator",
        2617,
        "oid:o oprname:t oprnamespace:o oprowner:o oprkind:t oprcanmerge:b oprcanhash:b \
         oprleft:o oprright:o oprresult:o oprcom:o oprnegate:o oprcode:o oprrest:o oprjoin:o",
    ),
    ("pg_catalog", "pg_opfamily", 2753, "oid:o opfmethod:o opfname:t opfnamespace:o opfowner:o"),
    ("pg_catalog", "pg_parameter_acl", 6243, "oid:o parname:t paracl:T?"),
    (
        "pg_catalog",
        "pg_partitioned_table",
        3350,
        "partrelid:o partstrat:t partnatts:s partdefid:o partattrs:t partclass:t partcollation:t partexprs:t?",
    ),
    (
        "pg_catalog",
        "pg_policy",
        3256,
        "oid:o polname:t polrelid:o polcmd:t polpermissive:b polroles:A polqual:t? polwithcheck:t?",
    ),
    (
        "pg_catalog",
        "pg_proc",
        1255,
        "oid:o proname:t pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport:o prokind:t \
         prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile:t proparallel:t pronargs:s pronargdefaults:s \
         prorettype:o proargtypes:t proallargtypes:t? proargmodes:t? proargnames:t? proargdefaults:t? protrftypes:t? \
         prosrc:t probin:t? prosqlbody:t? proconfig:T? proacl:T?",
    ),
    (
        "pg_catalog",
        "pg_publication",
        6104,
        "oid:o pubname:t pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b",
    ),
    ("pg_catalog", "pg_publication_namespace", 6237, "oid:o pnpubid:o pnnspid:o"),
    ("pg_catalog", "pg_publication_rel", 6106, "oid:o prpubid:o prrelid:o prqual:t? prattrs:v?"),
    (
        "pg_catalog",
        "pg_range",
        3541,
        "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical:o rngsubdiff:o",
    ),
    (
        "pg_catalog",
        "pg_rewrite",
        2618,
        "oid:o rulename:t ev_class:o ev_type:t ev_enabled:t is_instead:b ev_qual:t ev_action:t",
    ),
    (
        "pg_catalog",
        "pg_roles",
        12000,
        "rolname:t? rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b \
         rolconnlimit:i? rolpassword:t? rolvaliduntil:z? rolbypassrls:b rolconfig:T? oid:o?",
    ),
    (
        "pg_catalog",
        "pg_seclabels",
        12099,
        "objoid:o? classoid:o? objsubid:i? objtype:t? objnamespace:o? objname:t? provider:t? label:t?",
    ),
    (
        "pg_catalog",
        "pg_sequence",
        2224,
        "seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b",
    ),
    (
        "pg_catalog",
        "pg_sequences",
        12053,
        "schemaname:t? sequencename:t? sequenceowner:t? data_type:t? start_value:l? min_value:l? max_value:l? \
         increment_by:l? cycle:b? cache_size:l? last_value:l?",
    ),
    (
        "pg_catalog",
        "pg_settings",
        12104,
        "name:t? setting:t? unit:t? category:t? short_desc:t? extra_desc:t? context:t? vartype:t? source:t? min_val:t? \
         max_val:t? enumvals:t? boot_val:t? reset_val:t? sourcefile:t? sourceline:i? pending_restart:b",
    ),
    ("pg_catalog", "pg_shdescription", 2396, "objoid:o classoid:o description:t"),
    (
        "pg_catalog",
        "pg_stat_activity",
        12222,
        "datid:o? datname:t? pid:i? leader_pid:i? usesysid:o? usename:t? application_name:t? client_addr:t? \
         client_hostname:t? client_port:i? backend_start:z? xact_start:z? query_start:z? state_change:z? \
         wait_event_type:t? wait_event:t? state:t? backend_xid:o? backend_xmin:o? query_id:l? query:t? backend_type:t?",
    ),
    (
        "pg_catalog",
        "pg_statistic_ext",
        3381,
        "oid:o stxrelid:o stxname:t stxnamespace:o stxowner:o stxstattarget:i stxkeys:v stxkind:T stxexprs:t?",
    ),
    ("pg_catalog", "pg_shseclabel", 3592, "objoid:o classoid:o provider:t label:t"),
    (
        "pg_catalog",
        "pg_subscription",
        6100,
        "oid:o subdbid:o subskiplsn:t subname:t subowner:o subenabled:b subbinary:b substream:b subtwophasestate:t \
         subdisableonerr:b subconninfo:t subslotname:t? subsynccommit:t subpublications:T",
    ),
    (
        "pg_catalog",
        "pg_tables",
        12033,
        "schemaname:t? tablename:t? tableowner:t? tablespace:t? hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    ),
    ("pg_catalog", "pg_tablespace", 1213, "oid:o spcname:t spcowner:o spcacl:T? spcoptions:T?"),
    ("pg_catalog", "pg_transform", 3576, "oid:o trftype:o trflang:o trffromsql:o trftosql:o"),
    ("pg_catalog", "pg_timezone_abbrevs", 12122, "abbrev:t? utc_offset:d? is_dst:b?"),
    ("pg_catalog", "pg_timezone_names", 12126, "name:t? abbrev:t? utc_offset:d? is_dst:b?"),
    (
        "pg_catalog",
        "pg_trigger",
        2620,
        "oid:o tgrelid:o tgparentid:o tgname:t tgfoid:o tgtype:s tgenabled:t tgisinternal:b tgconstrrelid:o \
         tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:s tgattr:t tgargs:t tgqual:t? \
         tgoldtable:t? tgnewtable:t?",
    ),
    ("pg_catalog", "pg_ts_config", 3602, "oid:o cfgname:t cfgnamespace:o cfgowner:o cfgparser:o"),
    (
        "pg_catalog",
        "pg_ts_dict",
        3600,
        "oid:o dictname:t dictnamespace:o dictowner:o dicttemplate:o dictinitoption:t?",
    ),
    (
        "pg_catalog",
        "pg_ts_parser",
        3601,
        "oid:o prsname:t prsnamespace:o prsstart:o prstoken:o prsend:o prsheadline:o \
         prslextype:o",
    ),
    (
        "pg_catalog",
        "pg_ts_template",
        3764,
        "oid:o tmplname:t tmplnamespace:o tmplinit:o tmpllexize:o",
    ),
    (
        "pg_catalog",
        "pg_type",
        1247,
        "oid:o typname:t typnamespace:o typowner:o typlen:s typbyval:b typtype:t typcategory:t typispreferred:b \
         typisdefined:b typdelim:t typrelid:o typsubscript:p typelem:o typarray:o typinput:p typoutput:p typreceive:p \
         typsend:p typmodin:o typmodout:o typanalyze:o typalign:t typstorage:t typnotnull:b typbasetype:o typtypmod:i \
         typndims:i typcollation:o typdefaultbin:t? typdefault:t? typacl:T?",
    ),
    (
        "pg_catalog",
        "pg_user",
        12014,
        "usename:t? usesysid:o? usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t? valuntil:z? useconfig:T?",
    ),
    (
        "pg_catalog",
        "pg_user_mappings",
        12117,
        "umid:o? srvid:o? srvname:t? umuser:o? usename:t? umoptions:T?",
    ),
    ("pg_catalog", "pg_views", 12028, "schemaname:t? viewname:t? viewowner:t? definition:t?"),
    (
        "pg_catalog",
        "pg_available_extension_versions",
        12085,
        "name:t? version:t? installed:b? superuser:b? trusted:b? relocatable:b? schema:t? \
         requires:T? comment:t?",
    ),
    (
        "pg_catalog",
        "pg_available_extensions",
        12081,
        "name:t? default_version:t? installed_version:t? comment:t?",
    ),
    (
        "pg_catalog",
        "pg_cursors",
        12077,
        "name:t? statement:t? is_holdable:b? is_binary:b? is_scrollable:b? creation_time:z?",
    ),
    (
        "pg_catalog",
        "pg_file_settings",
        12110,
        "sourcefile:t? sourceline:i? seqno:i? name:t? setting:t? applied:b? error:t?",
    ),
    ("pg_catalog", "pg_group", 12010, "groname:t? grosysid:o? grolist:t?"),
    (
        "pg_catalog",
        "pg_hba_file_rules",
        12114,
        "line_number:i? type:t? database:T? user_name:T? address:t? netmask:t? auth_method:t? \
         options:T? error:t?",
    ),
    ("pg_catalog", "pg_largeobject", 2613, "loid:o pageno:i data:t"),
    (
        "pg_catalog",
        "pg_policies",
        12018,
        "schemaname:t? tablename:t? policyname:t? permissive:t? roles:T? cmd:t? qual:t? \
         with_check:t?",
    ),
    (
        "pg_catalog",
        "pg_prepared_statements",
        12095,
        "name:t? statement:t? prepare_time:z? parameter_types:t? from_sql:b? generic_plans:l? \
         custom_plans:l?",
    ),
    (
        "pg_catalog",
        "pg_prepared_xacts",
        12090,
        "transaction:t? gid:t? prepared:z? owner:t? database:t?",
    ),
    (
        "pg_catalog",
        "pg_publication_tables",
        12068,
        "pubname:t? schemaname:t? tablename:t? attnames:T? rowfilter:t?",
    ),
    ("pg_catalog", "pg_replication_origin", 6000, "roident:o roname:t"),
    (
        "pg_catalog",
        "pg_replication_slots",
        12257,
        "slot_name:t? plugin:t? slot_type:t? datoid:o? database:t? temporary:b? active:b? \
         active_pid:i? xmin:t? catalog_xmin:t? restart_lsn:t? confirmed_flush_lsn:t? \
         wal_status:t? safe_wal_size:l? two_phase:b?",
    ),
    ("pg_catalog", "pg_rules", 12023, "schemaname:t? tablename:t? rulename:t? definition:t?"),
    ("pg_catalog", "pg_seclabel", 3596, "objoid:o classoid:o objsubid:i provider:t label:t"),
    (
        "pg_catalog",
        "pg_shadow",
        12005,
        "usename:t? usesysid:o? usecreatedb:b? usesuper:b? userepl:b? usebypassrls:b? \
         passwd:t? valuntil:z? useconfig:T?",
    ),
    (
        "pg_catalog",
        "pg_shdepend",
        1214,
        "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:t",
    ),
    (
        "pg_catalog",
        "pg_stat_all_indexes",
        12183,
        "relid:o? indexrelid:o? schemaname:t? relname:t? indexrelname:t? idx_scan:l? \
         idx_tup_read:l? idx_tup_fetch:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_all_tables",
        12142,
        "relid:o? schemaname:t? relname:t? seq_scan:l? seq_tup_read:l? idx_scan:l? \
         idx_tup_fetch:l? n_tup_ins:l? n_tup_upd:l? n_tup_del:l? n_tup_hot_upd:l? \
         n_live_tup:l? n_dead_tup:l? n_mod_since_analyze:l? n_ins_since_vacuum:l? \
         last_vacuum:z? last_autovacuum:z? last_analyze:z? last_autoanalyze:z? \
         vacuum_count:l? autovacuum_count:l? analyze_count:l? autoanalyze_count:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_archiver",
        12285,
        "archived_count:l? last_archived_wal:t? last_archived_time:z? failed_count:l? \
         last_failed_wal:t? last_failed_time:z? stats_reset:z?",
    ),
    (
        "pg_catalog",
        "pg_stat_bgwriter",
        12289,
        "checkpoints_timed:l? checkpoints_req:l? checkpoint_write_time:f? \
         checkpoint_sync_time:f? buffers_checkpoint:l? buffers_clean:l? maxwritten_clean:l? \
         buffers_backend:l? buffers_backend_fsync:l? buffers_alloc:l? stats_reset:z?",
    ),
    (
        "pg_catalog",
        "pg_stat_database",
        12266,
        "datid:o? datname:t? numbackends:i? xact_commit:l? xact_rollback:l? blks_read:l? \
         blks_hit:l? tup_returned:l? tup_fetched:l? tup_inserted:l? tup_updated:l? \
         tup_deleted:l? conflicts:l? temp_files:l? temp_bytes:l? deadlocks:l? \
         checksum_failures:l? checksum_last_failure:z? blk_read_time:f? blk_write_time:f? \
         session_time:f? active_time:f? idle_in_transaction_time:f? sessions:l? \
         sessions_abandoned:l? sessions_fatal:l? sessions_killed:l? stats_reset:z?",
    ),
    (
        "pg_catalog",
        "pg_stat_progress_analyze",
        12297,
        "pid:i? datid:o? datname:t? relid:o? phase:t? sample_blks_total:l? \
         sample_blks_scanned:l? ext_stats_total:l? ext_stats_computed:l? \
         child_tables_total:l? child_tables_done:l? current_child_table_relid:o?",
    ),
    (
        "pg_catalog",
        "pg_stat_progress_copy",
        12322,
        "pid:i? datid:o? datname:t? relid:o? command:t? type:t? bytes_processed:l? \
         bytes_total:l? tuples_processed:l? tuples_excluded:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_progress_create_index",
        12312,
        "pid:i? datid:o? datname:t? relid:o? index_relid:o? command:t? phase:t? \
         lockers_total:l? lockers_done:l? current_locker_pid:l? blocks_total:l? \
         blocks_done:l? tuples_total:l? tuples_done:l? partitions_total:l? partitions_done:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_progress_vacuum",
        12302,
        "pid:i? datid:o? datname:t? relid:o? phase:t? heap_blks_total:l? heap_blks_scanned:l? \
         heap_blks_vacuumed:l? index_vacuum_count:l? max_dead_tuples:l? num_dead_tuples:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_replication",
        12227,
        "pid:i? usesysid:o? usename:t? application_name:t? client_addr:t? client_hostname:t? \
         client_port:i? backend_start:z? backend_xmin:t? state:t? sent_lsn:t? write_lsn:t? \
         flush_lsn:t? replay_lsn:t? write_lag:t? flush_lag:t? replay_lag:t? sync_priority:i? \
         sync_state:t? reply_time:z?",
    ),
    (
        "pg_catalog",
        "pg_stat_ssl",
        12249,
        "pid:i? ssl:b? version:t? cipher:t? bits:i? client_dn:t? client_serial:t? \
         issuer_dn:t?",
    ),
    (
        "pg_catalog",
        "pg_stat_subscription",
        12244,
        "subid:o? subname:t? pid:i? relid:o? received_lsn:t? last_msg_send_time:z? \
         last_msg_receipt_time:z? latest_end_lsn:t? latest_end_time:z?",
    ),
    (
        "pg_catalog",
        "pg_stat_sys_tables",
        12152,
        "relid:o? schemaname:t? relname:t? seq_scan:l? seq_tup_read:l? idx_scan:l? \
         idx_tup_fetch:l? n_tup_ins:l? n_tup_upd:l? n_tup_del:l? n_tup_hot_upd:l? \
         n_live_tup:l? n_dead_tup:l? n_mod_since_analyze:l? n_ins_since_vacuum:l? \
         last_vacuum:z? last_autovacuum:z? last_analyze:z? last_autoanalyze:z? \
         vacuum_count:l? autovacuum_count:l? analyze_count:l? autoanalyze_count:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_user_functions",
        12275,
        "funcid:o? schemaname:t? funcname:t? calls:l? total_time:f? self_time:f?",
    ),
    (
        "pg_catalog",
        "pg_stat_user_indexes",
        12192,
        "relid:o? indexrelid:o? schemaname:t? relname:t? indexrelname:t? idx_scan:l? \
         idx_tup_read:l? idx_tup_fetch:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_user_tables",
        12161,
        "relid:o? schemaname:t? relname:t? seq_scan:l? seq_tup_read:l? idx_scan:l? \
         idx_tup_fetch:l? n_tup_ins:l? n_tup_upd:l? n_tup_del:l? n_tup_hot_upd:l? \
         n_live_tup:l? n_dead_tup:l? n_mod_since_analyze:l? n_ins_since_vacuum:l? \
         last_vacuum:z? last_autovacuum:z? last_analyze:z? last_autoanalyze:z? \
         vacuum_count:l? autovacuum_count:l? analyze_count:l? autoanalyze_count:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_wal",
        12293,
        "wal_records:l? wal_fpi:l? wal_bytes:t? wal_buffers_full:l? wal_write:l? wal_sync:l? \
         wal_write_time:f? wal_sync_time:f? stats_reset:z?",
    ),
    (
        "pg_catalog",
        "pg_stat_wal_receiver",
        12236,
        "pid:i? status:t? receive_start_lsn:t? receive_start_tli:i? written_lsn:t? \
         flushed_lsn:t? received_tli:i? last_msg_send_time:z? last_msg_receipt_time:z? \
         latest_end_lsn:t? latest_end_time:z? slot_name:t? sender_host:t? sender_port:i? \
         conninfo:t?",
    ),
    (
        "pg_catalog",
        "pg_stat_xact_all_tables",
        12147,
        "relid:o? schemaname:t? relname:t? seq_scan:l? seq_tup_read:l? idx_scan:l? \
         idx_tup_fetch:l? n_tup_ins:l? n_tup_upd:l? n_tup_del:l? n_tup_hot_upd:l?",
    ),
    (
        "pg_catalog",
        "pg_stat_xact_user_tables",
        12166,
        "relid:o? schemaname:t? relname:t? seq_scan:l? seq_tup_read:l? idx_scan:l? \
         idx_tup_fetch:l? n_tup_ins:l? n_tup_upd:l? n_tup_del:l? n_tup_hot_upd:l?",
    ),
    (
        "pg_catalog",
        "pg_statio_all_indexes",
        12196,
        "relid:o? indexrelid:o? schemaname:t? relname:t? indexrelname:t? idx_blks_read:l? \
         idx_blks_hit:l?",
    ),
    (
        "pg_catalog",
        "pg_statio_all_sequences",
        12209,
        "relid:o? schemaname:t? relname:t? blks_read:l? blks_hit:l?",
    ),
    (
        "pg_catalog",
        "pg_statio_all_tables",
        12170,
        "relid:o? schemaname:t? relname:t? heap_blks_read:l? heap_blks_hit:l? \
         idx_blks_read:l? idx_blks_hit:l? toast_blks_read:l? toast_blks_hit:l? \
         tidx_blks_read:l? tidx_blks_hit:l?",
    ),
    (
        "pg_catalog",
        "pg_statio_user_indexes",
        12205,
        "relid:o? indexrelid:o? schemaname:t? relname:t? indexrelname:t? idx_blks_read:l? \
         idx_blks_hit:l?",
    ),
    (
        "pg_catalog",
        "pg_statio_user_sequences",
        12218,
        "relid:o? schemaname:t? relname:t? blks_read:l? blks_hit:l?",
    ),
    (
        "pg_catalog",
        "pg_statio_user_tables",
        12179,
        "relid:o? schemaname:t? relname:t? heap_blks_read:l? heap_blks_hit:l? \
         idx_blks_read:l? idx_blks_hit:l? toast_blks_read:l? toast_blks_hit:l? \
         tidx_blks_read:l? tidx_blks_hit:l?",
    ),
    (
        "pg_catalog",
        "pg_statistic",
        2619,
        "starelid:o staattnum:s stainherit:b stanullfrac:f stawidth:i stadistinct:f \
         stakind1:s stakind2:s stakind3:s stakind4:s stakind5:s staop1:o staop2:o staop3:o \
         staop4:o staop5:o stacoll1:o stacoll2:o stacoll3:o stacoll4:o stacoll5:o \
         stanumbers1:t? stanumbers2:t? stanumbers3:t? stanumbers4:t? stanumbers5:t? \
         stavalues1:t? stavalues2:t? stavalues3:t? stavalues4:t? stavalues5:t?",
    ),
    (
        "pg_catalog",
        "pg_statistic_ext_data",
        3429,
        "stxoid:o stxdinherit:b stxdndistinct:t? stxddependencies:t? stxdmcv:t? stxdexpr:t?",
    ),
    (
        "pg_catalog",
        "pg_stats",
        12054,
        "schemaname:t? tablename:t? attname:t? inherited:b? null_frac:f? avg_width:i? \
         n_distinct:f? most_common_vals:t? most_common_freqs:t? histogram_bounds:t? \
         correlation:f? most_common_elems:t? most_common_elem_freqs:t? \
         elem_count_histogram:t?",
    ),
    (
        "pg_catalog",
        "pg_stats_ext",
        12058,
        "schemaname:t? tablename:t? statistics_schemaname:t? statistics_name:t? \
         statistics_owner:t? attnames:T? exprs:T? kinds:t? inherited:b? n_distinct:t? \
         dependencies:t? most_common_vals:T? most_common_val_nulls:t? most_common_freqs:t? \
         most_common_base_freqs:t?",
    ),
    ("pg_catalog", "pg_subscription_rel", 6102, "srsubid:o srrelid:o srsubstate:t srsublsn:t?"),
    ("pg_catalog", "pg_ts_config_map", 3603, "mapcfg:o maptokentype:i mapseqno:i mapdict:o"),
    ("pg_catalog", "pg_user_mapping", 1418, "oid:o umuser:o umserver:o umoptions:T?"),
    (
        "meridian",
        "clock",
        13201,
        "node:i state:t? source:t? earliest:z? latest:z? uncertainty_ns:l? ahead_ns:l? round_trip_ns:l?",
    ),
    (
        "meridian",
        "shards",
        13202,
        "shard:i leader:i? table_name:t? start_key:t end_key:t? voters:t learners:t witnesses:t",
    ),
    (
        "information_schema",
        "check_constraints",
        13270,
        "constraint_catalog:t? constraint_schema:t? constraint_name:t? check_clause:t?",
    ),
    (
        "information_schema",
        "columns",
        13295,
        "table_catalog:t? table_schema:t? table_name:t? column_name:t? ordinal_position:i? column_default:t? \
         is_nullable:t? data_type:t? character_maximum_length:i? character_octet_length:i? numeric_precision:i? \
         numeric_precision_radix:i? numeric_scale:i? datetime_precision:i? interval_type:t? interval_precision:i? \
         character_set_catalog:t? character_set_schema:t? character_set_name:t? collation_catalog:t? \
         collation_schema:t? collation_name:t? domain_catalog:t? domain_schema:t? domain_name:t? udt_catalog:t? \
         udt_schema:t? udt_name:t? scope_catalog:t? scope_schema:t? scope_name:t? maximum_cardinality:i? \
         dtd_identifier:t? is_self_referencing:t? is_identity:t? identity_generation:t? identity_start:t? \
         identity_increment:t? identity_maximum:t? identity_minimum:t? identity_cycle:t? is_generated:t? \
         generation_expression:t? is_updatable:t?",
    ),
    (
        "information_schema",
        "constraint_column_usage",
        13300,
        "table_catalog:t? table_schema:t? table_name:t? column_name:t? constraint_catalog:t? constraint_schema:t? \
         constraint_name:t?",
    ),
    (
        "information_schema",
        "key_column_usage",
        13329,
        "constraint_catalog:t? constraint_schema:t? constraint_name:t? table_catalog:t? table_schema:t? table_name:t? \
         column_name:t? ordinal_position:i? position_in_unique_constraint:i?",
    ),
    (
        "information_schema",
        "referential_constraints",
        13339,
        "constraint_catalog:t? constraint_schema:t? constraint_name:t? unique_constraint_catalog:t? \
         unique_constraint_schema:t? unique_constraint_name:t? match_option:t? update_rule:t? delete_rule:t?",
    ),
    (
        "information_schema",
        "routines",
        13377,
        "specific_catalog:t? specific_schema:t? specific_name:t? routine_catalog:t? routine_schema:t? routine_name:t? \
         routine_type:t? module_catalog:t? module_schema:t? module_name:t? udt_catalog:t? udt_schema:t? udt_name:t? \
         data_type:t? character_maximum_length:i? character_octet_length:i? character_set_catalog:t? \
         character_set_schema:t? character_set_name:t? collation_catalog:t? collation_schema:t? collation_name:t? \
         numeric_precision:i? numeric_precision_radix:i? numeric_scale:i? datetime_precision:i? interval_type:t? \
         interval_precision:i? type_udt_catalog:t? type_udt_schema:t? type_udt_name:t? scope_catalog:t? scope_schema:t? \
         scope_name:t? maximum_cardinality:i? dtd_identifier:t? routine_body:t? routine_definition:t? external_name:t? \
         external_language:t? parameter_style:t? is_deterministic:t? sql_data_access:t? is_null_call:t? sql_path:t? \
         schema_level_routine:t? max_dynamic_result_sets:i? is_user_defined_cast:t? is_implicitly_invocable:t? \
         security_type:t? to_sql_specific_catalog:t? to_sql_specific_schema:t? to_sql_specific_name:t? as_locator:t? \
         created:z? last_altered:z? new_savepoint_level:t? is_udt_dependent:t? result_cast_from_data_type:t? \
         result_cast_as_locator:t? result_cast_char_max_length:i? result_cast_char_octet_length:i? \
         result_cast_char_set_catalog:t? result_cast_char_set_schema:t? result_cast_char_set_name:t? \
         result_cast_collation_catalog:t? result_cast_collation_schema:t? result_cast_collation_name:t? \
         result_cast_numeric_precision:i? result_cast_numeric_precision_radix:i? result_cast_numeric_scale:i? \
         result_cast_datetime_precision:i? result_cast_interval_type:t? result_cast_interval_precision:i? \
         result_cast_type_udt_catalog:t? result_cast_type_udt_schema:t? result_cast_type_udt_name:t? \
         result_cast_scope_catalog:t? result_cast_scope_schema:t? result_cast_scope_name:t? \
         result_cast_maximum_cardinality:i? result_cast_dtd_identifier:t?",
    ),
    (
        "information_schema",
        "schemata",
        13382,
        "catalog_name:t? schema_name:t? schema_owner:t? default_character_set_catalog:t? \
         default_character_set_schema:t? default_character_set_name:t? sql_path:t?",
    ),
    (
        "information_schema",
        "sequences",
        13386,
        "sequence_catalog:t? sequence_schema:t? sequence_name:t? data_type:t? numeric_precision:i? \
         numeric_precision_radix:i? numeric_scale:i? start_value:t? minimum_value:t? maximum_value:t? increment:t? \
         cycle_option:t?",
    ),
    (
        "information_schema",
        "table_constraints",
        13411,
        "constraint_catalog:t? constraint_schema:t? constraint_name:t? table_catalog:t? table_schema:t? table_name:t? \
         constraint_type:t? is_deferrable:t? initially_deferred:t? enforced:t? nulls_distinct:t?",
    ),
    (
        "information_schema",
        "tables",
        13425,
        "table_catalog:t? table_schema:t? table_name:t? table_type:t? self_referencing_column_name:t? \
         reference_generation:t? user_defined_type_catalog:t? user_defined_type_schema:t? user_defined_type_name:t? \
         is_insertable_into:t? is_typed:t? commit_action:t?",
    ),
    (
        "information_schema",
        "triggers",
        13440,
        "trigger_catalog:t? trigger_schema:t? trigger_name:t? event_manipulation:t? event_object_catalog:t? \
         event_object_schema:t? event_object_table:t? action_order:i? action_condition:t? action_statement:t? \
         action_orientation:t? action_timing:t? action_reference_old_table:t? action_reference_new_table:t? \
         action_reference_old_row:t? action_reference_new_row:t? created:z?",
    ),
    (
        "information_schema",
        "views",
        13483,
        "table_catalog:t? table_schema:t? table_name:t? view_definition:t? check_option:t? is_updatable:t? \
         is_insertable_into:t? is_trigger_updatable:t? is_trigger_deletable:t? is_trigger_insertable_into:t?",
    ),
    (
        "information_schema",
        "administrable_role_authorizations",
        13241,
        "grantee:t? role_name:t? is_grantable:t?",
    ),
    ("information_schema", "applicable_roles", 13236, "grantee:t? role_name:t? is_grantable:t?"),
    (
        "information_schema",
        "attributes",
        13245,
        "udt_catalog:t? udt_schema:t? udt_name:t? attribute_name:t? ordinal_position:i? \
         attribute_default:t? is_nullable:t? data_type:t? character_maximum_length:i? \
         character_octet_length:i? character_set_catalog:t? character_set_schema:t? \
         character_set_name:t? collation_catalog:t? collation_schema:t? collation_name:t? \
         numeric_precision:i? numeric_precision_radix:i? numeric_scale:i? \
         datetime_precision:i? interval_type:t? interval_precision:i? \
         attribute_udt_catalog:t? attribute_udt_schema:t? attribute_udt_name:t? \
         scope_catalog:t? scope_schema:t? scope_name:t? maximum_cardinality:i? \
         dtd_identifier:t? is_derived_reference_attribute:t?",
    ),
    (
        "information_schema",
        "character_sets",
        13250,
        "character_set_catalog:t? character_set_schema:t? character_set_name:t? \
         character_repertoire:t? form_of_use:t? default_collate_catalog:t? \
         default_collate_schema:t? default_collate_name:t?",
    ),
    (
        "information_schema",
        "check_constraint_routine_usage",
        13255,
        "constraint_catalog:t? constraint_schema:t? constraint_name:t? specific_catalog:t? \
         specific_schema:t? specific_name:t?",
    ),
    (
        "information_schema",
        "collations",
        13265,
        "collation_catalog:t? collation_schema:t? collation_name:t? pad_attribute:t?",
    ),
    (
        "information_schema",
        "column_privileges",
        13285,
        "grantor:t? grantee:t? table_catalog:t? table_schema:t? table_name:t? column_name:t? \
         privilege_type:t? is_grantable:t?",
    ),
    (
        "information_schema",
        "column_udt_usage",
        13290,
        "udt_catalog:t? udt_schema:t? udt_name:t? table_catalog:t? table_schema:t? \
         table_name:t? column_name:t?",
    ),
    (
        "information_schema",
        "constraint_table_usage",
        13305,
        "table_catalog:t? table_schema:t? table_name:t? constraint_catalog:t? \
         constraint_schema:t? constraint_name:t?",
    ),
    (
        "information_schema",
        "domain_constraints",
        13310,
        "constraint_catalog:t? constraint_schema:t? constraint_name:t? domain_catalog:t? \
         domain_schema:t? domain_name:t? is_deferrable:t? initially_deferred:t?",
    ),
    (
        "information_schema",
        "domain_udt_usage",
        13315,
        "udt_catalog:t? udt_schema:t? udt_name:t? domain_catalog:t? domain_schema:t? \
         domain_name:t?",
    ),
    (
        "information_schema",
        "domains",
        13320,
        "domain_catalog:t? domain_schema:t? domain_name:t? data_type:t? \
         character_maximum_length:i? character_octet_length:i? character_set_catalog:t? \
         character_set_schema:t? character_set_name:t? collation_catalog:t? \
         collation_schema:t? collation_name:t? numeric_precision:i? \
         numeric_precision_radix:i? numeric_scale:i? datetime_precision:i? interval_type:t? \
         interval_precision:i? domain_default:t? udt_catalog:t? udt_schema:t? udt_name:t? \
         scope_catalog:t? scope_schema:t? scope_name:t? maximum_cardinality:i? \
         dtd_identifier:t?",
    ),
    (
        "information_schema",
        "element_types",
        13493,
        "object_catalog:t? object_schema:t? object_name:t? object_type:t? \
         collection_type_identifier:t? data_type:t? character_maximum_length:i? \
         character_octet_length:i? character_set_catalog:t? character_set_schema:t? \
         character_set_name:t? collation_catalog:t? collation_schema:t? collation_name:t? \
         numeric_precision:i? numeric_precision_radix:i? numeric_scale:i? \
         datetime_precision:i? interval_type:t? interval_precision:i? domain_default:t? \
         udt_catalog:t? udt_schema:t? udt_name:t? scope_catalog:t? scope_schema:t? \
         scope_name:t? maximum_cardinality:i? dtd_identifier:t?",
    ),
    ("information_schema", "enabled_roles", 13325, "role_name:t?"),
    (
        "information_schema",
        "foreign_servers",
        13528,
        "foreign_server_catalog:t? foreign_server_name:t? foreign_data_wrapper_catalog:t? \
         foreign_data_wrapper_name:t? foreign_server_type:t? foreign_server_version:t? \
         authorization_identifier:t?",
    ),
    (
        "information_schema",
        "foreign_tables",
        13541,
        "foreign_table_catalog:t? foreign_table_schema:t? foreign_table_name:t? \
         foreign_server_catalog:t? foreign_server_name:t?",
    ),
    ("information_schema", "information_schema_catalog_name", 13227, "catalog_name:t?"),
    (
        "information_schema",
        "parameters",
        13334,
        "specific_catalog:t? specific_schema:t? specific_name:t? ordinal_position:i? \
         parameter_mode:t? is_result:t? as_locator:t? parameter_name:t? data_type:t? \
         character_maximum_length:i? character_octet_length:i? character_set_catalog:t? \
         character_set_schema:t? character_set_name:t? collation_catalog:t? \
         collation_schema:t? collation_name:t? numeric_precision:i? \
         numeric_precision_radix:i? numeric_scale:i? datetime_precision:i? interval_type:t? \
         interval_precision:i? udt_catalog:t? udt_schema:t? udt_name:t? scope_catalog:t? \
         scope_schema:t? scope_name:t? maximum_cardinality:i? dtd_identifier:t? \
         parameter_default:t?",
    ),
    (
        "information_schema",
        "role_column_grants",
        13344,
        "grantor:t? grantee:t? table_catalog:t? table_schema:t? table_name:t? column_name:t? \
         privilege_type:t? is_grantable:t?",
    ),
    (
        "information_schema",
        "role_routine_grants",
        13358,
        "grantor:t? grantee:t? specific_catalog:t? specific_schema:t? specific_name:t? \
         routine_catalog:t? routine_schema:t? routine_name:t? privilege_type:t? \
         is_grantable:t?",
    ),
    (
        "information_schema",
        "role_table_grants",
        13421,
        "grantor:t? grantee:t? table_catalog:t? table_schema:t? table_name:t? \
         privilege_type:t? is_grantable:t? with_hierarchy:t?",
    ),
    (
        "information_schema",
        "role_usage_grants",
        13459,
        "grantor:t? grantee:t? object_catalog:t? object_schema:t? object_name:t? \
         object_type:t? privilege_type:t? is_grantable:t?",
    ),
    (
        "information_schema",
        "routine_privileges",
        13353,
        "grantor:t? grantee:t? specific_catalog:t? specific_schema:t? specific_name:t? \
         routine_catalog:t? routine_schema:t? routine_name:t? privilege_type:t? \
         is_grantable:t?",
    ),
    (
        "information_schema",
        "table_privileges",
        13416,
        "grantor:t? grantee:t? table_catalog:t? table_schema:t? table_name:t? \
         privilege_type:t? is_grantable:t? with_hierarchy:t?",
    ),
    (
        "information_schema",
        "triggered_update_columns",
        13435,
        "trigger_catalog:t? trigger_schema:t? trigger_name:t? event_object_catalog:t? \
         event_object_schema:t? event_object_table:t? event_object_column:t?",
    ),
    (
        "information_schema",
        "udt_privileges",
        13445,
        "grantor:t? grantee:t? udt_catalog:t? udt_schema:t? udt_name:t? privilege_type:t? \
         is_grantable:t?",
    ),
    (
        "information_schema",
        "usage_privileges",
        13454,
        "grantor:t? grantee:t? object_catalog:t? object_schema:t? object_name:t? \
         object_type:t? privilege_type:t? is_grantable:t?",
    ),
    (
        "information_schema",
        "user_defined_types",
        13463,
        "user_defined_type_catalog:t? user_defined_type_schema:t? user_defined_type_name:t? \
         user_defined_type_category:t? is_instantiable:t? is_final:t? ordering_form:t? \
         ordering_category:t? ordering_routine_catalog:t? ordering_routine_schema:t? \
         ordering_routine_name:t? reference_type:t? data_type:t? character_maximum_length:i? \
         character_octet_length:i? character_set_catalog:t? character_set_schema:t? \
         character_set_name:t? collation_catalog:t? collation_schema:t? collation_name:t? \
         numeric_precision:i? numeric_precision_radix:i? numeric_scale:i? \
         datetime_precision:i? interval_type:t? interval_precision:i? \
         source_dtd_identifier:t? ref_dtd_identifier:t?",
    ),
    (
        "information_schema",
        "view_column_usage",
        13468,
        "view_catalog:t? view_schema:t? view_name:t? table_catalog:t? table_schema:t? \
         table_name:t? column_name:t?",
    ),
    (
        "information_schema",
        "view_table_usage",
        13478,
        "view_catalog:t? view_schema:t? view_name:t? table_catalog:t? table_schema:t? \
         table_name:t?",
    ),
];
