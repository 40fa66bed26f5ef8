-- name: lacking_to_write
-- What this role may not do of what a run does to labels and to rcll's own tables; rights on single columns will do.
SELECT format('UPDATE (%%I) on %%s', label, %(units)s::regclass)
FROM unnest(ARRAY['room', 'hall', 'layer']) label
WHERE NOT has_column_privilege(%(units)s::regclass, label, 'UPDATE')
UNION ALL
SELECT format('%%s on %%s', privilege, own::regclass)
FROM unnest(%(written)s::text[] || %(kept)s::text[]) own, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) privilege
WHERE NOT has_table_privilege(own::regclass, privilege) AND NOT (privilege = 'DELETE' AND own = ANY(%(kept)s::text[]))
UNION ALL
SELECT format('SELECT on %%s', %(migrations)s::regclass)
WHERE NOT has_table_privilege(%(migrations)s::regclass, 'SELECT');

-- name: lacking_to_migrate
-- What this role may not do of what a migration does, which works as the owner of memory_units.
SELECT format('membership in %%I, who owns %%s', pg_get_userbyid(c.relowner), c.oid::regclass)
FROM pg_catalog.pg_class c
WHERE c.oid = ANY(%(tables)s::regclass[]) AND NOT pg_has_role(c.relowner, 'MEMBER')
UNION ALL
SELECT format('CREATE on schema %%I for its owner %%I', %(schema)s::text, pg_get_userbyid(c.relowner))
FROM pg_catalog.pg_class c
WHERE c.oid = %(units)s::regclass AND NOT has_schema_privilege(c.relowner, %(schema)s, 'CREATE');
