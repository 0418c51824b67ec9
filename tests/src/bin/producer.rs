//! A producer that a test kills. `producer DB QUEUE TASKS` puts TASKS tasks in one call that waits for capacity, prints
//! `put N` in a transaction that it leaves open, and lives until its standard input ends.

use std::io::Read;

use xqueue_tests::{ask, connect_to, empty_tasks, pid};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [db, queue, tasks] = args.as_slice() else { panic!("usage: producer DB QUEUE TASKS") };
    let tasks = empty_tasks(tasks.parse().expect("a number of tasks"));
    let mut client = connect_to(db);
    println!("pid {}", pid(&mut client));
    client.batch_execute("BEGIN").expect("a transaction begins");
    let sql = format!("SELECT xqueue.put('{{q}}', '{tasks}', timeout => '50s')");
    println!("put {}", ask(&mut client, queue, &sql).len());
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).expect("standard input is readable");
}
