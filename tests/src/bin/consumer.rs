//! A consumer that a test kills. `consumer hold DB QUEUE` waits for a task, prints `took ID`, and holds the task until
//! its standard input ends. `consumer loop DB QUEUE` takes and acks, and prints `took ID` each time.

use std::io::Read;

use xqueue_tests::{ack, connect_to, id, pid, take};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, db, queue] = args.as_slice() else { panic!("usage: consumer hold|loop DB QUEUE") };
    let mut client = connect_to(db);
    println!("pid {}", pid(&mut client));
    loop {
        let tasks = take(&mut client, queue, "50s", 1);
        let Some(task) = tasks.first() else { continue };
        println!("took {}", id(task));
        if mode == "hold" {
            break;
        }
        ack(&mut client, queue, id(task));
    }
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).expect("standard input is readable");
}
