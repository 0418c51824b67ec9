# shellcheck shell=bash
# Shared by the programs that test a server of their own: the server, statements, and TAP. Sourced, never run. $bin is the folder
# of the server's programs.

failed=0 number=0 environment=()

sql() { "${bin:?}/psql" -XAtq -v ON_ERROR_STOP=1 "$@" 2>&1; }

# is NAME EXPECTED ACTUAL runs one test. $prefix precedes its name.
is() {
    number=$((number + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $number - ${prefix-}$1"
    else
        failed=1
        printf 'not ok %s - %s\n' "$number" "${prefix-}$1"
        printf '%s\n' "expected: $2" "got: $3" | sed 's/^/# /'
    fi
}

# soon NAME EXPECTED QUERY runs one test, and repeats the query for up to 20 seconds until it returns EXPECTED.
soon() {
    local end=$((SECONDS + 20)) answer
    until answer=$(sql -c "$3") && [ "$answer" = "$2" ] || [ "$SECONDS" -ge "$end" ]; do sleep 0.05; done
    is "$1" "$2" "$answer"
}

# end_of_tests prints the plan, and ends the program.
end_of_tests() {
    echo "1..$number"
    exit "$failed"
}

# own_server NAME prepares a server of the program's own, with its data, socket and log in the folder $home, which is removed at
# the end. It runs as the user of XQUEUE_AS.
own_server() {
    read -ra as_server <<<"${XQUEUE_AS-}"
    home=$(mktemp -d "/tmp/xqueue-$1.XXXXXX")
    data=$home/data log=$home/log
    export PGHOST=$home PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
    trap remove_server EXIT
    # Only the server's user owns the socket folder. The user who runs the program can be another one.
    if [ ${#as_server[@]} -gt 0 ]; then chown postgres "$home"; fi
}

as_server_user() { "${as_server[@]}" env -C "$home" "$@"; }

# init_server [OPTION...]
init_server() {
    as_server_user "$bin/initdb" -D "$data" -U postgres -A trust --locale=C.UTF-8 -E UTF8 --no-sync "$@" >/dev/null
    echo "include 'own.conf'" | as_server_user tee -a "$data/postgresql.conf" >/dev/null
}

# configure [SETTING...]
configure() {
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$PGHOST'" "port = $PGPORT" "fsync = off" "$@" |
        as_server_user tee "$data/own.conf" >/dev/null
}

# start [SETTING...]: $environment can hold variables for the server.
start() {
    configure "$@"
    as_server_user env "${environment[@]}" "$bin/pg_ctl" -D "$data" -l "$log" -w start >/dev/null || { cat "$log" && exit 1; }
}

# stop [MODE]
stop() { as_server_user "$bin/pg_ctl" -D "$data" -m "${1-fast}" -w stop >/dev/null; }

remove_server() {
    stop immediate 2>/dev/null || true
    rm -rf "$home"
}
