//! The columns of the tables of `pg_catalog`.

use super::Layout;

pub(super) const LAYOUTS: &[Layout] = &[
    (
        "pg_catalog",
        "pg_aggregate",
        2600,
        "aggfnoid:regproc aggkind:char aggnumdirectargs:int2 aggtransfn:regproc \
         aggfinalfn:regproc aggcombinefn:regproc aggserialfn:regproc aggdeserialfn:regproc \
         aggmtransfn:regproc aggminvtransfn:regproc aggmfinalfn:regproc aggfinalextra:bool \
         aggmfinalextra:bool aggfinalmodify:char aggmfinalmodify:char aggsortop:oid \
         aggtranstype:oid aggtransspace:int4 aggmtranstype:oid aggmtransspace:int4 \
         agginitval:text? aggminitval:text?",
    ),
    ("pg_catalog", "pg_am", 2601, "oid:oid amname:name amhandler:regproc amtype:char"),
    (
        "pg_catalog",
        "pg_amop",
        2602,
        "oid:oid amopfamily:oid amoplefttype:oid amoprighttype:oid amopstrategy:int2 \
         amoppurpose:char amopopr:oid amopmethod:oid amopsortfamily:oid",
    ),
    (
        "pg_catalog",
        "pg_amproc",
        2603,
        "oid:oid amprocfamily:oid amproclefttype:oid amprocrighttype:oid amprocnum:int2 \
         amproc:regproc",
    ),
    ("pg_catalog", "pg_attrdef", 2604, "oid:oid adrelid:oid adnum:int2 adbin:pg_node_tree"),
    (
        "pg_catalog",
        "pg_attribute",
        1249,
        "attrelid:oid attname:name atttypid:oid attstattarget:int4 attlen:int2 attnum:int2 \
         attndims:int4 attcacheoff:int4 atttypmod:int4 attbyval:bool attalign:char \
         attstorage:char attcompression:char attnotnull:bool atthasdef:bool atthasmissing:bool \
         attidentity:char attgenerated:char attisdropped:bool attislocal:bool attinhcount:int4 \
         attcollation:oid attacl:_aclitem? attoptions:_text? attfdwoptions:_text? \
         attmissingval:anyarray?",
    ),
    ("pg_catalog", "pg_auth_members", 1261, "roleid:oid member:oid grantor:oid admin_option:bool"),
    (
        "pg_catalog",
        "pg_authid",
        1260,
        "oid:oid rolname:name rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool \
         rolcanlogin:bool rolreplication:bool rolbypassrls:bool rolconnlimit:int4 \
         rolpassword:text? rolvaliduntil:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_cast",
        2605,
        "oid:oid castsource:oid casttarget:oid castfunc:oid castcontext:char castmethod:char",
    ),
    (
        "pg_catalog",
        "pg_class",
        1259,
        "oid:oid relname:name relnamespace:oid reltype:oid reloftype:oid relowner:oid relam:oid \
         relfilenode:oid reltablespace:oid relpages:int4 reltuples:float4 relallvisible:int4 \
         reltoastrelid:oid relhasindex:bool relisshared:bool relpersistence:char relkind:char \
         relnatts:int2 relchecks:int2 relhasrules:bool relhastriggers:bool relhassubclass:bool \
         relrowsecurity:bool relforcerowsecurity:bool relispopulated:bool relreplident:char \
         relispartition:bool relrewrite:oid relfrozenxid:xid relminmxid:xid relacl:_aclitem? \
         reloptions:_text? relpartbound:pg_node_tree?",
    ),
    (
        "pg_catalog",
        "pg_collation",
        3456,
        "oid:oid collname:name collnamespace:oid collowner:oid collprovider:char \
         collisdeterministic:bool collencoding:int4 collcollate:text? collctype:text? \
         colliculocale:text? collversion:text?",
    ),
    (
        "pg_catalog",
        "pg_constraint",
        2606,
        "oid:oid conname:name connamespace:oid contype:char condeferrable:bool condeferred:bool \
         convalidated:bool conrelid:oid contypid:oid conindid:oid conparentid:oid confrelid:oid \
         confupdtype:char confdeltype:char confmatchtype:char conislocal:bool coninhcount:int4 \
         connoinherit:bool conkey:_int2? confkey:_int2? conpfeqop:_oid? conppeqop:_oid? \
         conffeqop:_oid? confdelsetcols:_int2? conexclop:_oid? conbin:pg_node_tree?",
    ),
    (
        "pg_catalog",
        "pg_conversion",
        2607,
        "oid:oid conname:name connamespace:oid conowner:oid conforencoding:int4 \
         contoencoding:int4 conproc:regproc condefault:bool",
    ),
    (
        "pg_catalog",
        "pg_database",
        1262,
        "oid:oid datname:name datdba:oid encoding:int4 datlocprovider:char datistemplate:bool \
         datallowconn:bool datconnlimit:int4 datfrozenxid:xid datminmxid:xid dattablespace:oid \
         datcollate:text datctype:text daticulocale:text? datcollversion:text? datacl:_aclitem?",
    ),
    ("pg_catalog", "pg_db_role_setting", 2964, "setdatabase:oid setrole:oid setconfig:_text?"),
    (
        "pg_catalog",
        "pg_default_acl",
        826,
        "oid:oid defaclrole:oid defaclnamespace:oid defaclobjtype:char defaclacl:_aclitem",
    ),
    (
        "pg_catalog",
        "pg_depend",
        2608,
        "classid:oid objid:oid objsubid:int4 refclassid:oid refobjid:oid refobjsubid:int4 \
         deptype:char",
    ),
    (
        "pg_catalog",
        "pg_description",
        2609,
        "objoid:oid classoid:oid objsubid:int4 description:text",
    ),
    ("pg_catalog", "pg_enum", 3501, "oid:oid enumtypid:oid enumsortorder:float4 enumlabel:name"),
    (
        "pg_catalog",
        "pg_event_trigger",
        3466,
        "oid:oid evtname:name evtevent:name evtowner:oid evtfoid:oid evtenabled:char \
         evttags:_text?",
    ),
    (
        "pg_catalog",
        "pg_extension",
        3079,
        "oid:oid extname:name extowner:oid extnamespace:oid extrelocatable:bool extversion:text \
         extconfig:_oid? extcondition:_text?",
    ),
    (
        "pg_catalog",
        "pg_foreign_data_wrapper",
        2328,
        "oid:oid fdwname:name fdwowner:oid fdwhandler:oid fdwvalidator:oid fdwacl:_aclitem? \
         fdwoptions:_text?",
    ),
    (
        "pg_catalog",
        "pg_foreign_server",
        1417,
        "oid:oid srvname:name srvowner:oid srvfdw:oid srvtype:text? srvversion:text? \
         srvacl:_aclitem? srvoptions:_text?",
    ),
    ("pg_catalog", "pg_foreign_table", 3118, "ftrelid:oid ftserver:oid ftoptions:_text?"),
    (
        "pg_catalog",
        "pg_index",
        2610,
        "indexrelid:oid indrelid:oid indnatts:int2 indnkeyatts:int2 indisunique:bool \
         indnullsnotdistinct:bool indisprimary:bool indisexclusion:bool indimmediate:bool \
         indisclustered:bool indisvalid:bool indcheckxmin:bool indisready:bool indislive:bool \
         indisreplident:bool indkey:int2vector indcollation:oidvector indclass:oidvector \
         indoption:int2vector indexprs:pg_node_tree? indpred:pg_node_tree?",
    ),
    (
        "pg_catalog",
        "pg_indexes",
        12043,
        "schemaname:name? tablename:name? indexname:name? tablespace:name? indexdef:text?",
    ),
    (
        "pg_catalog",
        "pg_inherits",
        2611,
        "inhrelid:oid inhparent:oid inhseqno:int4 inhdetachpending:bool",
    ),
    (
        "pg_catalog",
        "pg_init_privs",
        3394,
        "objoid:oid classoid:oid objsubid:int4 privtype:char initprivs:_aclitem",
    ),
    (
        "pg_catalog",
        "pg_language",
        2612,
        "oid:oid lanname:name lanowner:oid lanispl:bool lanpltrusted:bool lanplcallfoid:oid \
         laninline:oid lanvalidator:oid lanacl:_aclitem?",
    ),
    ("pg_catalog", "pg_largeobject_metadata", 2995, "oid:oid lomowner:oid lomacl:_aclitem?"),
    (
        "pg_catalog",
        "pg_locks",
        12073,
        "locktype:text? database:oid? relation:oid? page:int4? tuple:int2? virtualxid:text? \
         transactionid:xid? classid:oid? objid:oid? objsubid:int2? virtualtransaction:text? \
         pid:int4? mode:text? granted:bool fastpath:bool waitstart:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_matviews",
        12038,
        "schemaname:name? matviewname:name? matviewowner:name? tablespace:name? hasindexes:bool \
         ispopulated:bool definition:text?",
    ),
    ("pg_catalog", "pg_namespace", 2615, "oid:oid nspname:name nspowner:oid nspacl:_aclitem?"),
    (
        "pg_catalog",
        "pg_opclass",
        2616,
        "oid:oid opcmethod:oid opcname:name opcnamespace:oid opcowner:oid opcfamily:oid \
         opcintype:oid opcdefault:bool opckeytype:oid",
    ),
    (
        "pg_catalog",
        "pg_operator",
        2617,
        "oid:oid oprname:name oprnamespace:oid oprowner:oid oprkind:char oprcanmerge:bool \
         oprcanhash:bool oprleft:oid oprright:oid oprresult:oid oprcom:oid oprnegate:oid \
         oprcode:regproc oprrest:regproc oprjoin:regproc",
    ),
    (
        "pg_catalog",
        "pg_opfamily",
        2753,
        "oid:oid opfmethod:oid opfname:name opfnamespace:oid opfowner:oid",
    ),
    ("pg_catalog", "pg_parameter_acl", 6243, "oid:oid parname:text paracl:_aclitem?"),
    (
        "pg_catalog",
        "pg_partitioned_table",
        3350,
        "partrelid:oid partstrat:char partnatts:int2 partdefid:oid partattrs:int2vector \
         partclass:oidvector partcollation:oidvector partexprs:pg_node_tree?",
    ),
    (
        "pg_catalog",
        "pg_policy",
        3256,
        "oid:oid polname:name polrelid:oid polcmd:char polpermissive:bool polroles:_oid \
         polqual:pg_node_tree? polwithcheck:pg_node_tree?",
    ),
    (
        "pg_catalog",
        "pg_proc",
        1255,
        "oid:oid proname:name pronamespace:oid proowner:oid prolang:oid procost:float4 \
         prorows:float4 provariadic:oid prosupport:regproc prokind:char prosecdef:bool \
         proleakproof:bool proisstrict:bool proretset:bool provolatile:char proparallel:char \
         pronargs:int2 pronargdefaults:int2 prorettype:oid proargtypes:oidvector \
         proallargtypes:_oid? proargmodes:_char? proargnames:_text? \
         proargdefaults:pg_node_tree? protrftypes:_oid? prosrc:text probin:text? \
         prosqlbody:pg_node_tree? proconfig:_text? proacl:_aclitem?",
    ),
    (
        "pg_catalog",
        "pg_publication",
        6104,
        "oid:oid pubname:name pubowner:oid puballtables:bool pubinsert:bool pubupdate:bool \
         pubdelete:bool pubtruncate:bool pubviaroot:bool",
    ),
    ("pg_catalog", "pg_publication_namespace", 6237, "oid:oid pnpubid:oid pnnspid:oid"),
    (
        "pg_catalog",
        "pg_publication_rel",
        6106,
        "oid:oid prpubid:oid prrelid:oid prqual:pg_node_tree? prattrs:int2vector?",
    ),
    (
        "pg_catalog",
        "pg_range",
        3541,
        "rngtypid:oid rngsubtype:oid rngmultitypid:oid rngcollation:oid rngsubopc:oid \
         rngcanonical:regproc rngsubdiff:regproc",
    ),
    (
        "pg_catalog",
        "pg_rewrite",
        2618,
        "oid:oid rulename:name ev_class:oid ev_type:char ev_enabled:char is_instead:bool \
         ev_qual:pg_node_tree ev_action:pg_node_tree",
    ),
    (
        "pg_catalog",
        "pg_roles",
        12000,
        "rolname:name? rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool \
         rolcanlogin:bool rolreplication:bool rolconnlimit:int4? rolpassword:text? \
         rolvaliduntil:timestamptz? rolbypassrls:bool rolconfig:_text? oid:oid?",
    ),
    (
        "pg_catalog",
        "pg_seclabels",
        12099,
        "objoid:oid? classoid:oid? objsubid:int4? objtype:text? objnamespace:oid? objname:text? \
         provider:text? label:text?",
    ),
    (
        "pg_catalog",
        "pg_sequence",
        2224,
        "seqrelid:oid seqtypid:oid seqstart:int8 seqincrement:int8 seqmax:int8 seqmin:int8 \
         seqcache:int8 seqcycle:bool",
    ),
    (
        "pg_catalog",
        "pg_sequences",
        12053,
        "schemaname:name? sequencename:name? sequenceowner:name? data_type:regtype? \
         start_value:int8? min_value:int8? max_value:int8? increment_by:int8? cycle:bool? \
         cache_size:int8? last_value:int8?",
    ),
    (
        "pg_catalog",
        "pg_settings",
        12104,
        "name:text? setting:text? unit:text? category:text? short_desc:text? extra_desc:text? \
         context:text? vartype:text? source:text? min_val:text? max_val:text? enumvals:_text? \
         boot_val:text? reset_val:text? sourcefile:text? sourceline:int4? pending_restart:bool",
    ),
    ("pg_catalog", "pg_shdescription", 2396, "objoid:oid classoid:oid description:text"),
    (
        "pg_catalog",
        "pg_stat_activity",
        12222,
        "datid:oid? datname:name? pid:int4? leader_pid:int4? usesysid:oid? usename:name? \
         application_name:text? client_addr:inet? client_hostname:text? client_port:int4? \
         backend_start:timestamptz? xact_start:timestamptz? query_start:timestamptz? \
         state_change:timestamptz? wait_event_type:text? wait_event:text? state:text? \
         backend_xid:xid? backend_xmin:xid? query_id:int8? query:text? backend_type:text?",
    ),
    (
        "pg_catalog",
        "pg_statistic_ext",
        3381,
        "oid:oid stxrelid:oid stxname:name stxnamespace:oid stxowner:oid stxstattarget:int4 \
         stxkeys:int2vector stxkind:_char stxexprs:pg_node_tree?",
    ),
    ("pg_catalog", "pg_shseclabel", 3592, "objoid:oid classoid:oid provider:text label:text"),
    (
        "pg_catalog",
        "pg_subscription",
        6100,
        "oid:oid subdbid:oid subskiplsn:pg_lsn subname:name subowner:oid subenabled:bool \
         subbinary:bool substream:bool subtwophasestate:char subdisableonerr:bool \
         subconninfo:text subslotname:name? subsynccommit:text subpublications:_text",
    ),
    (
        "pg_catalog",
        "pg_tables",
        12033,
        "schemaname:name? tablename:name? tableowner:name? tablespace:name? hasindexes:bool \
         hasrules:bool hastriggers:bool rowsecurity:bool",
    ),
    (
        "pg_catalog",
        "pg_tablespace",
        1213,
        "oid:oid spcname:name spcowner:oid spcacl:_aclitem? spcoptions:_text?",
    ),
    (
        "pg_catalog",
        "pg_transform",
        3576,
        "oid:oid trftype:oid trflang:oid trffromsql:regproc trftosql:regproc",
    ),
    ("pg_catalog", "pg_timezone_abbrevs", 12122, "abbrev:text? utc_offset:interval? is_dst:bool?"),
    (
        "pg_catalog",
        "pg_timezone_names",
        12126,
        "name:text? abbrev:text? utc_offset:interval? is_dst:bool?",
    ),
    (
        "pg_catalog",
        "pg_trigger",
        2620,
        "oid:oid tgrelid:oid tgparentid:oid tgname:name tgfoid:oid tgtype:int2 tgenabled:char \
         tgisinternal:bool tgconstrrelid:oid tgconstrindid:oid tgconstraint:oid \
         tgdeferrable:bool tginitdeferred:bool tgnargs:int2 tgattr:int2vector tgargs:bytea \
         tgqual:pg_node_tree? tgoldtable:name? tgnewtable:name?",
    ),
    (
        "pg_catalog",
        "pg_ts_config",
        3602,
        "oid:oid cfgname:name cfgnamespace:oid cfgowner:oid cfgparser:oid",
    ),
    (
        "pg_catalog",
        "pg_ts_dict",
        3600,
        "oid:oid dictname:name dictnamespace:oid dictowner:oid dicttemplate:oid \
         dictinitoption:text?",
    ),
    (
        "pg_catalog",
        "pg_ts_parser",
        3601,
        "oid:oid prsname:name prsnamespace:oid prsstart:regproc prstoken:regproc prsend:regproc \
         prsheadline:regproc prslextype:regproc",
    ),
    (
        "pg_catalog",
        "pg_ts_template",
        3764,
        "oid:oid tmplname:name tmplnamespace:oid tmplinit:regproc tmpllexize:regproc",
    ),
    (
        "pg_catalog",
        "pg_type",
        1247,
        "oid:oid typname:name typnamespace:oid typowner:oid typlen:int2 typbyval:bool \
         typtype:char typcategory:char typispreferred:bool typisdefined:bool typdelim:char \
         typrelid:oid typsubscript:regproc typelem:oid typarray:oid typinput:regproc \
         typoutput:regproc typreceive:regproc typsend:regproc typmodin:regproc \
         typmodout:regproc typanalyze:regproc typalign:char typstorage:char typnotnull:bool \
         typbasetype:oid typtypmod:int4 typndims:int4 typcollation:oid \
         typdefaultbin:pg_node_tree? typdefault:text? typacl:_aclitem?",
    ),
    (
        "pg_catalog",
        "pg_user",
        12014,
        "usename:name? usesysid:oid? usecreatedb:bool usesuper:bool userepl:bool \
         usebypassrls:bool passwd:text? valuntil:timestamptz? useconfig:_text?",
    ),
    (
        "pg_catalog",
        "pg_user_mappings",
        12117,
        "umid:oid? srvid:oid? srvname:name? umuser:oid? usename:name? umoptions:_text?",
    ),
    (
        "pg_catalog",
        "pg_views",
        12028,
        "schemaname:name? viewname:name? viewowner:name? definition:text?",
    ),
    (
        "pg_catalog",
        "pg_available_extension_versions",
        12085,
        "name:name? version:text? installed:bool? superuser:bool? trusted:bool? \
         relocatable:bool? schema:name? requires:_name? comment:text?",
    ),
    (
        "pg_catalog",
        "pg_available_extensions",
        12081,
        "name:name? default_version:text? installed_version:text? comment:text?",
    ),
    (
        "pg_catalog",
        "pg_cursors",
        12077,
        "name:text? statement:text? is_holdable:bool? is_binary:bool? is_scrollable:bool? \
         creation_time:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_file_settings",
        12110,
        "sourcefile:text? sourceline:int4? seqno:int4? name:text? setting:text? applied:bool? \
         error:text?",
    ),
    ("pg_catalog", "pg_group", 12010, "groname:name? grosysid:oid? grolist:_oid?"),
    (
        "pg_catalog",
        "pg_hba_file_rules",
        12114,
        "line_number:int4? type:text? database:_text? user_name:_text? address:text? \
         netmask:text? auth_method:text? options:_text? error:text?",
    ),
    ("pg_catalog", "pg_largeobject", 2613, "loid:oid pageno:int4 data:bytea"),
    (
        "pg_catalog",
        "pg_policies",
        12018,
        "schemaname:name? tablename:name? policyname:name? permissive:text? roles:_name? \
         cmd:text? qual:text? with_check:text?",
    ),
    (
        "pg_catalog",
        "pg_prepared_statements",
        12095,
        "name:text? statement:text? prepare_time:timestamptz? parameter_types:_regtype? \
         from_sql:bool? generic_plans:int8? custom_plans:int8?",
    ),
    (
        "pg_catalog",
        "pg_prepared_xacts",
        12090,
        "transaction:xid? gid:text? prepared:timestamptz? owner:name? database:name?",
    ),
    (
        "pg_catalog",
        "pg_publication_tables",
        12068,
        "pubname:name? schemaname:name? tablename:name? attnames:_name? rowfilter:text?",
    ),
    ("pg_catalog", "pg_replication_origin", 6000, "roident:oid roname:text"),
    (
        "pg_catalog",
        "pg_replication_slots",
        12257,
        "slot_name:name? plugin:name? slot_type:text? datoid:oid? database:name? \
         temporary:bool? active:bool? active_pid:int4? xmin:xid? catalog_xmin:xid? \
         restart_lsn:pg_lsn? confirmed_flush_lsn:pg_lsn? wal_status:text? safe_wal_size:int8? \
         two_phase:bool?",
    ),
    (
        "pg_catalog",
        "pg_rules",
        12023,
        "schemaname:name? tablename:name? rulename:name? definition:text?",
    ),
    (
        "pg_catalog",
        "pg_seclabel",
        3596,
        "objoid:oid classoid:oid objsubid:int4 provider:text label:text",
    ),
    (
        "pg_catalog",
        "pg_shadow",
        12005,
        "usename:name? usesysid:oid? usecreatedb:bool? usesuper:bool? userepl:bool? \
         usebypassrls:bool? passwd:text? valuntil:timestamptz? useconfig:_text?",
    ),
    (
        "pg_catalog",
        "pg_shdepend",
        1214,
        "dbid:oid classid:oid objid:oid objsubid:int4 refclassid:oid refobjid:oid deptype:char",
    ),
    (
        "pg_catalog",
        "pg_stat_all_indexes",
        12183,
        "relid:oid? indexrelid:oid? schemaname:name? relname:name? indexrelname:name? \
         idx_scan:int8? idx_tup_read:int8? idx_tup_fetch:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_all_tables",
        12142,
        "relid:oid? schemaname:name? relname:name? seq_scan:int8? seq_tup_read:int8? \
         idx_scan:int8? idx_tup_fetch:int8? n_tup_ins:int8? n_tup_upd:int8? n_tup_del:int8? \
         n_tup_hot_upd:int8? n_live_tup:int8? n_dead_tup:int8? n_mod_since_analyze:int8? \
         n_ins_since_vacuum:int8? last_vacuum:timestamptz? last_autovacuum:timestamptz? \
         last_analyze:timestamptz? last_autoanalyze:timestamptz? vacuum_count:int8? \
         autovacuum_count:int8? analyze_count:int8? autoanalyze_count:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_archiver",
        12285,
        "archived_count:int8? last_archived_wal:text? last_archived_time:timestamptz? \
         failed_count:int8? last_failed_wal:text? last_failed_time:timestamptz? \
         stats_reset:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_stat_bgwriter",
        12289,
        "checkpoints_timed:int8? checkpoints_req:int8? checkpoint_write_time:float8? \
         checkpoint_sync_time:float8? buffers_checkpoint:int8? buffers_clean:int8? \
         maxwritten_clean:int8? buffers_backend:int8? buffers_backend_fsync:int8? \
         buffers_alloc:int8? stats_reset:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_stat_database",
        12266,
        "datid:oid? datname:name? numbackends:int4? xact_commit:int8? xact_rollback:int8? \
         blks_read:int8? blks_hit:int8? tup_returned:int8? tup_fetched:int8? tup_inserted:int8? \
         tup_updated:int8? tup_deleted:int8? conflicts:int8? temp_files:int8? temp_bytes:int8? \
         deadlocks:int8? checksum_failures:int8? checksum_last_failure:timestamptz? \
         blk_read_time:float8? blk_write_time:float8? session_time:float8? active_time:float8? \
         idle_in_transaction_time:float8? sessions:int8? sessions_abandoned:int8? \
         sessions_fatal:int8? sessions_killed:int8? stats_reset:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_stat_progress_analyze",
        12297,
        "pid:int4? datid:oid? datname:name? relid:oid? phase:text? sample_blks_total:int8? \
         sample_blks_scanned:int8? ext_stats_total:int8? ext_stats_computed:int8? \
         child_tables_total:int8? child_tables_done:int8? current_child_table_relid:oid?",
    ),
    (
        "pg_catalog",
        "pg_stat_progress_copy",
        12322,
        "pid:int4? datid:oid? datname:name? relid:oid? command:text? type:text? \
         bytes_processed:int8? bytes_total:int8? tuples_processed:int8? tuples_excluded:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_progress_create_index",
        12312,
        "pid:int4? datid:oid? datname:name? relid:oid? index_relid:oid? command:text? \
         phase:text? lockers_total:int8? lockers_done:int8? current_locker_pid:int8? \
         blocks_total:int8? blocks_done:int8? tuples_total:int8? tuples_done:int8? \
         partitions_total:int8? partitions_done:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_progress_vacuum",
        12302,
        "pid:int4? datid:oid? datname:name? relid:oid? phase:text? heap_blks_total:int8? \
         heap_blks_scanned:int8? heap_blks_vacuumed:int8? index_vacuum_count:int8? \
         max_dead_tuples:int8? num_dead_tuples:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_replication",
        12227,
        "pid:int4? usesysid:oid? usename:name? application_name:text? client_addr:inet? \
         client_hostname:text? client_port:int4? backend_start:timestamptz? backend_xmin:xid? \
         state:text? sent_lsn:pg_lsn? write_lsn:pg_lsn? flush_lsn:pg_lsn? replay_lsn:pg_lsn? \
         write_lag:interval? flush_lag:interval? replay_lag:interval? sync_priority:int4? \
         sync_state:text? reply_time:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_stat_ssl",
        12249,
        "pid:int4? ssl:bool? version:text? cipher:text? bits:int4? client_dn:text? \
         client_serial:numeric? issuer_dn:text?",
    ),
    (
        "pg_catalog",
        "pg_stat_subscription",
        12244,
        "subid:oid? subname:name? pid:int4? relid:oid? received_lsn:pg_lsn? \
         last_msg_send_time:timestamptz? last_msg_receipt_time:timestamptz? \
         latest_end_lsn:pg_lsn? latest_end_time:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_stat_sys_tables",
        12152,
        "relid:oid? schemaname:name? relname:name? seq_scan:int8? seq_tup_read:int8? \
         idx_scan:int8? idx_tup_fetch:int8? n_tup_ins:int8? n_tup_upd:int8? n_tup_del:int8? \
         n_tup_hot_upd:int8? n_live_tup:int8? n_dead_tup:int8? n_mod_since_analyze:int8? \
         n_ins_since_vacuum:int8? last_vacuum:timestamptz? last_autovacuum:timestamptz? \
         last_analyze:timestamptz? last_autoanalyze:timestamptz? vacuum_count:int8? \
         autovacuum_count:int8? analyze_count:int8? autoanalyze_count:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_user_functions",
        12275,
        "funcid:oid? schemaname:name? funcname:name? calls:int8? total_time:float8? \
         self_time:float8?",
    ),
    (
        "pg_catalog",
        "pg_stat_user_indexes",
        12192,
        "relid:oid? indexrelid:oid? schemaname:name? relname:name? indexrelname:name? \
         idx_scan:int8? idx_tup_read:int8? idx_tup_fetch:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_user_tables",
        12161,
        "relid:oid? schemaname:name? relname:name? seq_scan:int8? seq_tup_read:int8? \
         idx_scan:int8? idx_tup_fetch:int8? n_tup_ins:int8? n_tup_upd:int8? n_tup_del:int8? \
         n_tup_hot_upd:int8? n_live_tup:int8? n_dead_tup:int8? n_mod_since_analyze:int8? \
         n_ins_since_vacuum:int8? last_vacuum:timestamptz? last_autovacuum:timestamptz? \
         last_analyze:timestamptz? last_autoanalyze:timestamptz? vacuum_count:int8? \
         autovacuum_count:int8? analyze_count:int8? autoanalyze_count:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_wal",
        12293,
        "wal_records:int8? wal_fpi:int8? wal_bytes:numeric? wal_buffers_full:int8? \
         wal_write:int8? wal_sync:int8? wal_write_time:float8? wal_sync_time:float8? \
         stats_reset:timestamptz?",
    ),
    (
        "pg_catalog",
        "pg_stat_wal_receiver",
        12236,
        "pid:int4? status:text? receive_start_lsn:pg_lsn? receive_start_tli:int4? \
         written_lsn:pg_lsn? flushed_lsn:pg_lsn? received_tli:int4? \
         last_msg_send_time:timestamptz? last_msg_receipt_time:timestamptz? \
         latest_end_lsn:pg_lsn? latest_end_time:timestamptz? slot_name:text? sender_host:text? \
         sender_port:int4? conninfo:text?",
    ),
    (
        "pg_catalog",
        "pg_stat_xact_all_tables",
        12147,
        "relid:oid? schemaname:name? relname:name? seq_scan:int8? seq_tup_read:int8? \
         idx_scan:int8? idx_tup_fetch:int8? n_tup_ins:int8? n_tup_upd:int8? n_tup_del:int8? \
         n_tup_hot_upd:int8?",
    ),
    (
        "pg_catalog",
        "pg_stat_xact_user_tables",
        12166,
        "relid:oid? schemaname:name? relname:name? seq_scan:int8? seq_tup_read:int8? \
         idx_scan:int8? idx_tup_fetch:int8? n_tup_ins:int8? n_tup_upd:int8? n_tup_del:int8? \
         n_tup_hot_upd:int8?",
    ),
    (
        "pg_catalog",
        "pg_statio_all_indexes",
        12196,
        "relid:oid? indexrelid:oid? schemaname:name? relname:name? indexrelname:name? \
         idx_blks_read:int8? idx_blks_hit:int8?",
    ),
    (
        "pg_catalog",
        "pg_statio_all_sequences",
        12209,
        "relid:oid? schemaname:name? relname:name? blks_read:int8? blks_hit:int8?",
    ),
    (
        "pg_catalog",
        "pg_statio_all_tables",
        12170,
        "relid:oid? schemaname:name? relname:name? heap_blks_read:int8? heap_blks_hit:int8? \
         idx_blks_read:int8? idx_blks_hit:int8? toast_blks_read:int8? toast_blks_hit:int8? \
         tidx_blks_read:int8? tidx_blks_hit:int8?",
    ),
    (
        "pg_catalog",
        "pg_statio_user_indexes",
        12205,
        "relid:oid? indexrelid:oid? schemaname:name? relname:name? indexrelname:name? \
         idx_blks_read:int8? idx_blks_hit:int8?",
    ),
    (
        "pg_catalog",
        "pg_statio_user_sequences",
        12218,
        "relid:oid? schemaname:name? relname:name? blks_read:int8? blks_hit:int8?",
    ),
    (
        "pg_catalog",
        "pg_statio_user_tables",
        12179,
        "relid:oid? schemaname:name? relname:name? heap_blks_read:int8? heap_blks_hit:int8? \
         idx_blks_read:int8? idx_blks_hit:int8? toast_blks_read:int8? toast_blks_hit:int8? \
         tidx_blks_read:int8? tidx_blks_hit:int8?",
    ),
    (
        "pg_catalog",
        "pg_statistic",
        2619,
        "starelid:oid staattnum:int2 stainherit:bool stanullfrac:float4 stawidth:int4 \
         stadistinct:float4 stakind1:int2 stakind2:int2 stakind3:int2 stakind4:int2 \
         stakind5:int2 staop1:oid staop2:oid staop3:oid staop4:oid staop5:oid stacoll1:oid \
         stacoll2:oid stacoll3:oid stacoll4:oid stacoll5:oid stanumbers1:_float4? \
         stanumbers2:_float4? stanumbers3:_float4? stanumbers4:_float4? stanumbers5:_float4? \
         stavalues1:anyarray? stavalues2:anyarray? stavalues3:anyarray? stavalues4:anyarray? \
         stavalues5:anyarray?",
    ),
    (
        "pg_catalog",
        "pg_statistic_ext_data",
        3429,
        "stxoid:oid stxdinherit:bool stxdndistinct:pg_ndistinct? \
         stxddependencies:pg_dependencies? stxdmcv:pg_mcv_list? stxdexpr:text?",
    ),
    (
        "pg_catalog",
        "pg_stats",
        12054,
        "schemaname:name? tablename:name? attname:name? inherited:bool? null_frac:float4? \
         avg_width:int4? n_distinct:float4? most_common_vals:anyarray? \
         most_common_freqs:_float4? histogram_bounds:anyarray? correlation:float4? \
         most_common_elems:anyarray? most_common_elem_freqs:_float4? \
         elem_count_histogram:_float4?",
    ),
    (
        "pg_catalog",
        "pg_stats_ext",
        12058,
        "schemaname:name? tablename:name? statistics_schemaname:name? statistics_name:name? \
         statistics_owner:name? attnames:_name? exprs:_text? kinds:_char? inherited:bool? \
         n_distinct:pg_ndistinct? dependencies:pg_dependencies? most_common_vals:_text? \
         most_common_val_nulls:_bool? most_common_freqs:_float8? \
         most_common_base_freqs:_float8?",
    ),
    (
        "pg_catalog",
        "pg_subscription_rel",
        6102,
        "srsubid:oid srrelid:oid srsubstate:char srsublsn:pg_lsn?",
    ),
    (
        "pg_catalog",
        "pg_ts_config_map",
        3603,
        "mapcfg:oid maptokentype:int4 mapseqno:int4 mapdict:oid",
    ),
    ("pg_catalog", "pg_user_mapping", 1418, "oid:oid umuser:oid umserver:oid umoptions:_text?"),
];
