# shellcheck shell=bash
# Shared by the programs that test a server of their own: statements, and TAP. Sourced, never run. $bin is the folder with psql.

failed=0 number=0

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
