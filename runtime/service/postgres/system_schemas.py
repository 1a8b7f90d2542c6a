"""Tables of ``pg_catalog`` and ``information_schema`` by name and columns, and PostgreSQL's functions over them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MACROS", "SYSTEM_TABLES", "TYPE_NAMES"]

TYPE_NAMES: Final = "pg_catalog.type_names"
"""Name of a table of types and their names in SQL, for `MACROS`; PostgreSQL does not have this table."""
_TABLES: Final = """
pg_catalog.pg_aggregate aggfnoid:o aggkind:n aggnumdirectargs:s
pg_catalog.pg_am oid:o amname:n amhandler:n amtype:n
pg_catalog.pg_attrdef oid:o adrelid:o adnum:s adbin:n
pg_catalog.pg_attribute attrelid:o attname:n atttypid:o attstattarget:i attlen:s attnum:s attndims:i attcacheoff:i
    atttypmod:i attbyval:b attalign:n attstorage:n attcompression:n attnotnull:b atthasdef:b atthasmissing:b
    attidentity:n attgenerated:n attisdropped:b attislocal:b attinhcount:i attcollation:o attacl:a attoptions:a
    attfdwoptions:a
pg_catalog.pg_auth_members oid:o roleid:o member:o grantor:o admin_option:b
pg_catalog.pg_authid oid:o rolname:n rolsuper:b rolcanlogin:b
pg_catalog.pg_available_extensions name:n default_version:n installed_version:n comment:n
pg_catalog.pg_cast oid:o castsource:o casttarget:o castfunc:o castcontext:n castmethod:n
pg_catalog.pg_class oid:o relname:n relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o
    reltablespace:o relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b
    relpersistence:n relkind:n relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b
    relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:n relispartition:b relrewrite:o
    relfrozenxid:o relminmxid:o relacl:a reloptions:a relpartbound:n relhasoids:b
pg_catalog.pg_collation oid:o collname:n collnamespace:o collowner:o collprovider:n collisdeterministic:b
    collencoding:i collcollate:n collctype:n
pg_catalog.pg_constraint oid:o conname:n connamespace:o contype:n condeferrable:b condeferred:b convalidated:b
    conrelid:o contypid:o conindid:o conparentid:o confrelid:o confupdtype:n confdeltype:n confmatchtype:n
    conislocal:b coninhcount:i connoinherit:b conkey:l confkey:l conbin:n conpfeqop:l
pg_catalog.pg_conversion oid:o conname:n connamespace:o
pg_catalog.pg_cursors name:n statement:n is_holdable:b is_binary:b is_scrollable:b creation_time:z
pg_catalog.pg_database oid:o datname:n datdba:o encoding:i datlocprovider:n datistemplate:b datallowconn:b
    datconnlimit:i datfrozenxid:o datminmxid:o dattablespace:o datcollate:n datctype:n daticulocale:n
    datcollversion:n datacl:a
pg_catalog.pg_db_role_setting setdatabase:o setrole:o setconfig:a
pg_catalog.pg_default_acl oid:o defaclrole:o defaclnamespace:o defaclobjtype:n defaclacl:a
pg_catalog.pg_depend classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:n
pg_catalog.pg_description objoid:o classoid:o objsubid:i description:n
pg_catalog.pg_enum oid:o enumtypid:o enumsortorder:f enumlabel:n
pg_catalog.pg_event_trigger oid:o evtname:n evtevent:n evtowner:o evtfoid:o evtenabled:n evttags:a
pg_catalog.pg_extension oid:o extname:n extowner:o extnamespace:o extrelocatable:b extversion:n extconfig:l
pg_catalog.pg_foreign_data_wrapper oid:o fdwname:n fdwowner:o fdwhandler:o fdwvalidator:o
pg_catalog.pg_foreign_server oid:o srvname:n srvowner:o srvfdw:o srvtype:n srvversion:n srvoptions:a
pg_catalog.pg_foreign_table ftrelid:o ftserver:o ftoptions:a
pg_catalog.pg_index indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indnullsnotdistinct:b
    indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b
    indislive:b indisreplident:b indkey:l indcollation:l indclass:l indoption:l indexprs:n indpred:n
pg_catalog.pg_indexes schemaname:n tablename:n indexname:n tablespace:n indexdef:n
pg_catalog.pg_inherits inhrelid:o inhparent:o inhseqno:i inhdetachpending:b
pg_catalog.pg_language oid:o lanname:n lanowner:o lanispl:b lanpltrusted:b
pg_catalog.pg_locks locktype:n database:o relation:o pid:i mode:n granted:b
pg_catalog.pg_matviews schemaname:n matviewname:n matviewowner:n tablespace:n hasindexes:b ispopulated:b
    definition:n
pg_catalog.pg_namespace oid:o nspname:n nspowner:o nspacl:a
pg_catalog.pg_opclass oid:o opcmethod:o opcname:n opcnamespace:o opcintype:o opcdefault:b
pg_catalog.pg_operator oid:o oprname:n oprnamespace:o oprkind:n oprleft:o oprright:o oprresult:o
pg_catalog.pg_partitioned_table partrelid:o partstrat:n partnatts:s
pg_catalog.pg_policy oid:o polname:n polrelid:o polcmd:n polpermissive:b polroles:l polqual:n polwithcheck:n
pg_catalog.pg_prepared_statements name:n statement:n prepare_time:z parameter_types:a from_sql:b
pg_catalog.pg_proc oid:o proname:n pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o
    prosupport:n prokind:n prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile:n proparallel:n
    pronargs:s pronargdefaults:s prorettype:o proargtypes:l proallargtypes:l proargmodes:a proargnames:a prosrc:n
    probin:n proconfig:a proacl:a
pg_catalog.pg_publication oid:o pubname:n pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b
    pubtruncate:b pubviaroot:b
pg_catalog.pg_publication_namespace oid:o pnpubid:o pnnspid:o
pg_catalog.pg_publication_rel oid:o prpubid:o prrelid:o prqual:n prattrs:l
pg_catalog.pg_range rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o
pg_catalog.pg_rewrite oid:o rulename:n ev_class:o ev_type:n ev_enabled:n is_instead:b
pg_catalog.pg_roles rolname:n rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b
    rolconnlimit:i rolpassword:n rolvaliduntil:z rolbypassrls:b rolconfig:a oid:o
pg_catalog.pg_rules schemaname:n tablename:n rulename:n definition:n
pg_catalog.pg_seclabels objoid:o classoid:o objsubid:i objtype:n provider:n label:n
pg_catalog.pg_sequence seqrelid:o seqtypid:o seqstart:x seqincrement:x seqmax:x seqmin:x seqcache:x seqcycle:b
pg_catalog.pg_sequences schemaname:n sequencename:n sequenceowner:n data_type:n start_value:x min_value:x
    max_value:x increment_by:x cycle:b cache_size:x last_value:x
pg_catalog.pg_settings name:n setting:n unit:n category:n short_desc:n extra_desc:n context:n vartype:n source:n
    min_val:n max_val:n enumvals:a boot_val:n reset_val:n sourcefile:n sourceline:i pending_restart:b
pg_catalog.pg_shdescription objoid:o classoid:o description:n
pg_catalog.pg_stat_activity datid:o datname:n pid:i usesysid:o usename:n application_name:n client_addr:n
    client_hostname:n client_port:i backend_start:z xact_start:z query_start:z state_change:z wait_event_type:n
    wait_event:n state:n query:n backend_type:n
pg_catalog.pg_stat_database datid:o datname:n numbackends:i xact_commit:x xact_rollback:x
pg_catalog.pg_stat_ssl pid:i ssl:b version:n cipher:n bits:i
pg_catalog.pg_stat_user_tables relid:o schemaname:n relname:n seq_scan:x n_live_tup:x n_dead_tup:x
pg_catalog.pg_statio_user_tables relid:o schemaname:n relname:n heap_blks_read:x heap_blks_hit:x
pg_catalog.pg_statistic_ext oid:o stxrelid:o stxname:n stxnamespace:o stxowner:o stxstattarget:i stxkeys:l stxkind:a
pg_catalog.pg_subscription oid:o subdbid:o subname:n subowner:o subenabled:b
pg_catalog.pg_tables schemaname:n tablename:n tableowner:n tablespace:n hasindexes:b hasrules:b hastriggers:b
    rowsecurity:b
pg_catalog.pg_tablespace oid:o spcname:n spcowner:o spcacl:a spcoptions:a
pg_catalog.pg_timezone_names name:n abbrev:n utc_offset:n is_dst:b
pg_catalog.pg_trigger oid:o tgrelid:o tgparentid:o tgname:n tgfoid:o tgtype:s tgenabled:n tgisinternal:b
    tgconstrrelid:o tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b
pg_catalog.pg_ts_config oid:o cfgname:n cfgnamespace:o
pg_catalog.pg_ts_dict oid:o dictname:n dictnamespace:o
pg_catalog.pg_type oid:o typname:n typnamespace:o typowner:o typlen:s typbyval:b typtype:n typcategory:n
    typispreferred:b typisdefined:b typdelim:n typrelid:o typsubscript:n typelem:o typarray:o typinput:n typoutput:n
    typreceive:n typsend:n typmodin:n typmodout:n typanalyze:n typalign:n typstorage:n typnotnull:b typbasetype:o
    typtypmod:i typndims:i typcollation:o typdefaultbin:n typdefault:n typacl:a
pg_catalog.pg_user usename:n usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:n valuntil:z
    useconfig:a
pg_catalog.pg_user_mapping oid:o umuser:o umserver:o umoptions:a
pg_catalog.pg_views schemaname:n viewname:n viewowner:n definition:n
information_schema.applicable_roles grantee:n role_name:n is_grantable:n
information_schema.character_sets character_set_catalog:n character_set_schema:n character_set_name:n
    default_collate_name:n
information_schema.column_privileges grantor:n grantee:n table_catalog:n table_schema:n table_name:n column_name:n
    privilege_type:n is_grantable:n
information_schema.columns table_catalog:n table_schema:n table_name:n column_name:n ordinal_position:i
    column_default:n is_nullable:n data_type:n character_maximum_length:i character_octet_length:i
    numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:n
    character_set_name:n collation_catalog:n collation_schema:n collation_name:n domain_catalog:n domain_schema:n
    domain_name:n udt_catalog:n udt_schema:n udt_name:n dtd_identifier:n is_self_referencing:n is_identity:n
    identity_generation:n is_generated:n generation_expression:n is_updatable:n
information_schema.constraint_column_usage table_catalog:n table_schema:n table_name:n column_name:n
    constraint_catalog:n constraint_schema:n constraint_name:n
information_schema.domains domain_catalog:n domain_schema:n domain_name:n data_type:n
information_schema.element_types object_catalog:n object_schema:n object_name:n object_type:n
    collection_type_identifier:n data_type:n
information_schema.enabled_roles role_name:n
information_schema.key_column_usage constraint_catalog:n constraint_schema:n constraint_name:n table_catalog:n
    table_schema:n table_name:n column_name:n ordinal_position:i position_in_unique_constraint:i
information_schema.parameters specific_catalog:n specific_schema:n specific_name:n ordinal_position:i
    parameter_mode:n parameter_name:n data_type:n
information_schema.referential_constraints constraint_catalog:n constraint_schema:n constraint_name:n
    unique_constraint_catalog:n unique_constraint_schema:n unique_constraint_name:n match_option:n update_rule:n
    delete_rule:n
information_schema.routines specific_catalog:n specific_schema:n specific_name:n routine_catalog:n routine_schema:n
    routine_name:n routine_type:n data_type:n
information_schema.schemata catalog_name:n schema_name:n schema_owner:n default_character_set_catalog:n
    default_character_set_schema:n default_character_set_name:n sql_path:n
information_schema.sequences sequence_catalog:n sequence_schema:n sequence_name:n data_type:n
information_schema.table_constraints constraint_catalog:n constraint_schema:n constraint_name:n table_catalog:n
    table_schema:n table_name:n constraint_type:n is_deferrable:n initially_deferred:n
information_schema.table_privileges grantor:n grantee:n table_catalog:n table_schema:n table_name:n privilege_type:n
    is_grantable:n with_hierarchy:n
information_schema.tables table_catalog:n table_schema:n table_name:n table_type:n self_referencing_column_name:n
    reference_generation:n user_defined_type_catalog:n user_defined_type_schema:n user_defined_type_name:n
    is_insertable_into:n is_typed:n commit_action:n
information_schema.triggers trigger_catalog:n trigger_schema:n trigger_name:n event_manipulation:n
    event_object_schema:n event_object_table:n action_statement:n action_timing:n
information_schema.views table_catalog:n table_schema:n table_name:n view_definition:n check_option:n is_updatable:n
    is_insertable_into:n is_trigger_updatable:n is_trigger_deletable:n is_trigger_insertable_into:n
"""
SYSTEM_TABLES: Final = {
    line.split()[0]: " ".join(line.split()[1:]) for line in re.sub(r"\n +", " ", _TABLES).strip().split("\n")
}
"""SCHEMA.TABLE → its columns, each NAME:LETTER.

The letters are: o oid, n name or text, b bool, i int4, s int2, f float4, x int8, z timestamptz, l oid[], a text[].
"""


def _value(column: str, table: str, key: str = "oid", sought: str = "o") -> str:
    """Return the SQL for the value of ``column`` in the row whose column ``key`` is equal to ``sought``.

    Columns of the table are renamed to names that no argument has, because DuckDB replaces an argument of a macro by
    its text. Otherwise the name of a caller's column could denote a column of the table.
    """
    renamed = f'SELECT {key} AS "@key", {column} AS "@found" FROM "{table}"'
    return f'(SELECT min(k."@found") FROM ({renamed}) k WHERE k."@key" = {sought})'


def _named(column: str, table: str) -> str:
    """Return the SQL for the name of the object with the number ``o``, ``-`` for 0."""
    return f"CASE WHEN o = 0 THEN '-' ELSE coalesce({_value(column, table)}, o::VARCHAR) END"


MACROS: Final[dict[str, str]] = {
    "array_lower(a, d)": "CASE WHEN len(a) > 0 THEN 1 END",
    "array_upper(a, d)": "nullif(len(a), 0)",
    "col_description(o, n)": "NULL::VARCHAR",
    "format_type(o, m)": "CASE WHEN o = 1700 AND m > 0 THEN 'numeric(' || ((m::INTEGER - 4) >> 16) || ',' || "
    f"((m::INTEGER - 4) & 65535) || ')' ELSE {_value('sql_name', TYPE_NAMES)} END",
    "has_any_column_privilege(a, b := '', c := '')": "true",
    "has_column_privilege(a, b, c := '', d := '')": "true",
    "has_database_privilege(a, b, c := '')": "true",
    "has_function_privilege(a, b, c := '')": "true",
    "has_schema_privilege(a, b, c := '')": "true",
    "has_sequence_privilege(a, b, c := '')": "true",
    "has_table_privilege(a, b, c := '')": "true",
    "inet_server_addr()": "NULL::VARCHAR",
    "inet_server_port()": "NULL::INTEGER",
    "obj_description(o, c := '')": "NULL::VARCHAR",
    "parse_ident(n)": "string_split(replace(n, '\"', ''), '.')",
    "pg_advisory_unlock_all()": "NULL::VARCHAR",
    "pg_char_to_encoding(n)": "6",
    "pg_database_size(o)": "0::BIGINT",
    "pg_encoding_to_char(n)": "'UTF8'",
    "pg_function_is_visible(o)": "true",
    "pg_get_constraintdef(o, p := false)": "NULL::VARCHAR",
    "pg_get_expr(e, o, p := false)": "NULL::VARCHAR",
    "pg_get_function_arguments(o)": "NULL::VARCHAR",
    "pg_get_function_identity_arguments(o)": "NULL::VARCHAR",
    "pg_get_function_result(o)": "NULL::VARCHAR",
    "pg_get_indexdef(o, n := 0, p := false)": "NULL::VARCHAR",
    "pg_get_partkeydef(o)": "NULL::VARCHAR",
    "pg_get_ruledef(o, p := false)": "NULL::VARCHAR",
    "pg_get_serial_sequence(t, c)": "NULL::VARCHAR",
    "pg_get_statisticsobjdef_columns(o)": "NULL::VARCHAR",
    "pg_get_triggerdef(o, p := false)": "NULL::VARCHAR",
    "pg_get_userbyid(o)": "'deltabook'",
    "pg_get_viewdef(o, p := false)": _value(
        "definition", "pg_catalog.pg_views", "viewname", _value("relname", "pg_catalog.pg_class")
    ),
    "pg_has_role(a, b, c := '')": "true",
    "pg_indexes_size(o)": "0::BIGINT",
    "pg_is_in_recovery()": "false",
    "pg_is_other_temp_schema(o)": "false",
    "pg_my_temp_schema()": "0::BIGINT",
    "pg_opclass_is_visible(o)": "true",
    "pg_operator_is_visible(o)": "true",
    "pg_postmaster_start_time()": "NULL::TIMESTAMPTZ",
    "pg_relation_is_publishable(o)": "false",
    "pg_relation_size(o, f := '')": "0::BIGINT",
    "pg_size_pretty(n)": "n || ' bytes'",
    "pg_statistics_obj_is_visible(o)": "true",
    "pg_stat_get_numscans(o)": "0::BIGINT",
    "pg_table_is_visible(o)": _value("relnamespace", "pg_catalog.pg_class") + " <> 13000",
    "pg_table_size(o)": "0::BIGINT",
    "pg_tablespace_location(o)": "''",
    "pg_total_relation_size(o)": "0::BIGINT",
    "pg_type_is_visible(o)": "true",
    "quote_ident(n)": "CASE WHEN regexp_full_match(n, '[a-z_][a-z0-9_]*') THEN n "
    "ELSE '\"' || replace(n, '\"', '\"\"') || "
    "'\"' END",
    "quote_literal(n)": "'''' || replace(n, '''', '''''') || ''''",
    "regclass_name(o)": _named("relname", "pg_catalog.pg_class"),
    "regnamespace_name(o)": _named("nspname", "pg_catalog.pg_namespace"),
    "regtype_name(o)": _named("sql_name", TYPE_NAMES),
    "shobj_description(o, c := '')": "NULL::VARCHAR",
    "to_regclass(n)": _value("oid", "pg_catalog.pg_class", "relname", "replace(regexp_extract(n, '[^.]+$'), '\"', '')"),
    "to_regnamespace(n)": _value("oid", "pg_catalog.pg_namespace", "nspname", "replace(n, '\"', '')"),
    "to_regtype(n)": f"coalesce({_value('oid', TYPE_NAMES, 'sql_name', 'n')}, "
    f"{_value('oid', TYPE_NAMES, 'name', 'n')})",
    "txid_current()": "1::BIGINT",
}
"""Function of PostgreSQL, or function that the SQL of `rewriting` calls → its definition over the tables above."""
