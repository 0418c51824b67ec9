//! SQL values of every type in pg_type, in every shape, for calls with arguments of the wrong type.

use postgres::Client;
use rand::Rng;
use rand::rngs::StdRng;

/// Types that the tests add to pg_type.
pub const TYPES: &str = "
    CREATE TYPE mood AS ENUM ('a', 'b', '1');
    CREATE DOMAIN small AS integer CHECK (VALUE < 100);
    CREATE DOMAIN word AS text NOT NULL;
    CREATE DOMAIN numbers AS integer[];
    CREATE TYPE pair AS (a integer, b text);
    CREATE TYPE loose AS (a integer, b text);
    CREATE TYPE nest AS (p pair, numbers integer[], bytes bytea);
    CREATE DOMAIN pairs AS pair[];
    CREATE DOMAIN checked AS pair CHECK ((VALUE).a > 0);
    CREATE TYPE span AS RANGE (subtype = small);
    CREATE TABLE other (id integer, gone text, note text);
    INSERT INTO other VALUES (1, 'x', 'y');
    ALTER TABLE other DROP gone;
    CREATE TABLE empty ();
    CREATE FUNCTION accepts(value text, type regtype) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('SELECT %L::%s', value, type);
        RETURN true;
    EXCEPTION WHEN OTHERS THEN
        RETURN false;
    END $$;";

/// Texts; the input function of a type accepts at least one of them. The last line has names of objects, and values of
/// types with a syntax of their own.
const TEXTS: &str = r#"
    1 a t {} {1} {"a":[1]} (1,a) (1,2) (1,2),(3,4) [(1,2),(3,4)] <(1,2),3> {1,2,3} [1,2) {[1,2)} 2020-02-02 12:00
    00000000-0000-0000-0000-000000000001 08:00:2b:01:02:03 08:00:2b:01:02:03:04:05 1.2.3.4 <a/> postgres=r/postgres
    pg_class int4 now now() +(integer,integer) simple english_stem 1:1: 0/0 (0,1) $.a 'a'&'b'"#;

/// Variables of PL/pgSQL: type and value. An array of `loose` is left out: that type is altered, and such a variable in
/// `SELECT $1::text` crashes the server by itself.
pub const EXPANDED: [(&str, &str); 15] = [
    ("integer[]", "'{1,2}'"),
    ("integer[]", "'{{1,2},{3,4}}'"),
    ("bigint[]", "'{1,NULL}'"),
    ("text[]", "'{a,1}'"),
    ("bytea[]", "ARRAY['\\x01'::bytea, '1']"),
    ("record", "ROW(1, 'a')"),
    ("record", "ROW(1, 'a'::text, NULL::bytea)"),
    ("pair", "ROW(1, 'a')"),
    ("pair[]", "ARRAY[ROW(1, 'a')::pair, NULL]"),
    ("loose", "ROW(1, 'a')"),
    ("nest", "ROW(ROW(1, 'a'), '{1}', '\\x01')"),
    ("other", "ROW(1, 'y')"),
    ("q_two", "ROW(1, 'a')"),
    ("q_bigint", "ROW(1)"),
    ("checked", "ROW(1, 'a')"),
];

/// Returns one value of each type for which a text exists.
pub fn scalars(c: &mut Client) -> Vec<String> {
    let texts: Vec<&str> = TEXTS.split_whitespace().collect();
    let sql = "SELECT format('%L::%s', (SELECT v FROM unnest($1::text[]) WITH ORDINALITY AS u(v, n) \
               WHERE accepts(v, t.oid) ORDER BY n LIMIT 1), format_type(t.oid, NULL)) \
               FROM pg_type t WHERE typtype IN ('b', 'd', 'e', 'r', 'm') AND typisdefined \
               AND (typcategory <> 'A' OR typtype = 'd') ORDER BY t.oid";
    c.query(sql, &[&texts]).expect("the types").iter().map(|row| row.get(0)).collect()
}

/// Returns all values in all shapes.
pub fn all(c: &mut Client, random: &mut StdRng) -> Vec<String> {
    let mut values = Vec::new();
    for value in scalars(c) {
        let (_, name) = value.rsplit_once("::").expect("a cast");
        values.extend([
            format!("NULL::{name}"),
            format!("ARRAY[{value}]"),
            format!("ARRAY[{value}, NULL]"),
            format!("ARRAY[[{value}, {value}], [{value}, NULL]]"),
            format!("'{{}}'::{name}[]"),
            format!("array_fill({value}, ARRAY[2], ARRAY[5])"),
            format!("ROW({value})"),
            format!("ROW({value}, {value})"),
            format!("ROW({value}, 'a'::text)"),
            format!("ROW(1, {value})"),
            format!("ARRAY[ROW({value}, {value}), ROW(1, NULL)]"),
            format!("ROW(ROW({value}, 1), ARRAY[{value}])"),
            format!("to_jsonb({value})"),
            format!("jsonb_build_object('id', {value}, 'b', {value})"),
            value,
        ]);
    }
    let sql = "SELECT format_type(oid, NULL) FROM pg_type WHERE typtype IN ('c', 'p') ORDER BY oid";
    for row in c.query(sql, &[]).expect("the types") {
        let name: String = row.get(0);
        values.extend([format!("NULL::{name}"), format!("ARRAY[NULL::{name}]")]);
    }
    values.extend(SPECIAL.iter().map(|value| value.to_string()));
    for bytes in crafted(random) {
        let bytes = format!("'\\x{}'::bytea", hex(&bytes));
        values.extend([
            format!("ARRAY[{bytes}]"),
            format!("ARRAY[{bytes}, {bytes}]"),
            format!("ROW({bytes})"),
            format!("ROW({bytes}, {bytes})"),
            format!("ARRAY[ROW({bytes}, 'a'::text)]"),
            format!("ROW(1, {bytes})"),
            bytes,
        ]);
    }
    values
}

const SPECIAL: [&str; 34] = [
    "NULL",
    "'x'",
    "'{1,2}'",
    "'{\"id\": 1, \"b\": \"a\"}'",
    "'[{\"id\": 1, \"b\": \"a\"}, 7, null]'",
    "DEFAULT",
    "ROW()",
    "ARRAY[ROW()]",
    "NULL::record",
    "ROW(1, 'a')::pair",
    "ROW(NULL, NULL)::pair",
    "ARRAY[ROW(1, 'a')::pair, NULL]",
    "ARRAY[[ROW(1, 'a')::pair]]",
    "ROW(ROW(1, 'a'), '{1}', '\\x01')::nest",
    "(SELECT o FROM other o)",
    "ARRAY(SELECT o FROM other o)",
    "(SELECT e FROM empty e)",
    "ROW()::empty",
    "(SELECT q FROM q_bigint q LIMIT 1)",
    "(SELECT q FROM q_two q LIMIT 1)",
    "ARRAY(SELECT q FROM q_two q)",
    "(SELECT c FROM pg_class c LIMIT 1)",
    "(SELECT ROW(c.*) FROM pg_class c LIMIT 1)",
    "ARRAY(SELECT i FROM generate_series(1, 2000) i)",
    "ARRAY(SELECT ROW(i, 'a') FROM generate_series(1, 200) i)",
    "repeat('1', 100000)",
    "ARRAY[repeat('a', 100000)]",
    "ROW(1, repeat('a', 100000))",
    "ROW(repeat('a', 100000), 1)",
    "'infinity'::float8",
    "'NaN'::numeric",
    "1e300::numeric",
    "-9223372036854775808",
    "9223372036854775808",
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns bytes that imitate the server's in-memory form of a value on this machine, after its length word.
fn crafted(random: &mut StdRng) -> Vec<Vec<u8>> {
    const ADDRESS: [u8; 8] = 0x4141_4141_4141_4140_u64.to_le_bytes();
    // A composite value: typmod and type of its row, its CTID, its columns, then their values.
    let record = |kind: u32, modifier: i32, columns: u16, mask: u16, begin: u8, data: &[u8]| {
        let mut bytes = modifier.to_le_bytes().to_vec();
        bytes.extend(kind.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(columns.to_le_bytes());
        bytes.extend(mask.to_le_bytes());
        bytes.extend([begin, 0]);
        bytes.extend(data);
        bytes
    };
    // A pointer to a value: in a TOAST table, at an address, or to an expanded object.
    let pointer = |tag: u8, to: &[u8]| [&[1, tag], to].concat();
    let toast = [1000_u32, 1000, 1, 1247].map(u32::to_le_bytes).concat();
    let (record_type, pair, integers) = (2249, 16384, 23);
    let mut all = vec![
        record(record_type, -1, 2, 0, 24, &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0x3f]),
        record(record_type, 0, 2, 0, 24, &[1, 0, 0, 0, 0x40, 0, 0, 0]),
        record(pair, -1, 2, 2, 24, &[1, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]),
        record(pair, -1, 2047, 7, 255, &[0xff; 64]),
        record(integers, -1, 1, 4, 24, &pointer(18, &toast)),
        record(record_type, 7, 1600, 1, 24, &pointer(1, &ADDRESS)),
        pointer(18, &toast),
        pointer(1, &ADDRESS),
        pointer(2, &ADDRESS),
        pointer(3, &ADDRESS),
        // The header of an expanded object, and its methods at an address.
        [&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], &ADDRESS[..], &ADDRESS].concat(),
        // An array: dimensions, no NULLs, element type, lengths and lower bounds.
        [1_i32, 0, 25, i32::MAX, 1].map(i32::to_le_bytes).concat(),
        [6_i32, 24, 2249, 1, 1, 1, 1, 1].map(i32::to_le_bytes).concat(),
        vec![0xff; 200],
        vec![0; 24],
        Vec::new(),
    ];
    all.extend((0..8).map(|_| {
        let length = random.random_range(1..80);
        (0..length).map(|_| random.random()).collect()
    }));
    all
}
