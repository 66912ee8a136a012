# shellcheck shell=bash
# A PostgreSQL on 127.0.0.1:5432 with the user and the database `comera`.
DOCS_DATABASE=$(mktemp -d /tmp/docs-postgres.XXXXXX)
echo "$DOCS_DATABASE" >>"$DOCS_WORK/remove"
docs_postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
# PostgreSQL refuses to run as root.
docs_as=()
if [ "$(id -u)" = 0 ]; then
  chown postgres "$DOCS_DATABASE"
  docs_as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
(
  cd "$DOCS_DATABASE"
  "${docs_as[@]}" "$docs_postgres/initdb" -D data -U comera -A trust \
    --no-sync >"$HOME/initdb.log"
)
"${docs_as[@]}" "$docs_postgres/postgres" -D "$DOCS_DATABASE/data" \
  -c listen_addresses=127.0.0.1 -c port=5432 -c unix_socket_directories= \
  -c fsync=off >"$HOME/postgres.log" 2>&1 &
docs_wait '"$docs_postgres/createdb" -h 127.0.0.1 -U comera comera'
