-- name: add_key
INSERT INTO {keys} (key_id, name, hash, may_read, may_write)
VALUES (%(key_id)s, %(name)s, %(hash)s, %(may_read)s, %(may_write)s);

-- name: find_key
SELECT hash, may_read, may_write FROM {keys} WHERE key_id = %(key_id)s AND revoked_at IS NULL;

-- name: has_keys
SELECT EXISTS (SELECT FROM {keys} WHERE revoked_at IS NULL);

-- name: list_keys
-- Newest first; what is kept of the secret stays here.
SELECT key_id, name, may_read, may_write, created_at, revoked_at FROM {keys} ORDER BY created_at DESC, key_id;

-- name: revoke_key
UPDATE {keys} SET revoked_at = now() WHERE key_id = %(key_id)s AND revoked_at IS NULL RETURNING key_id;
