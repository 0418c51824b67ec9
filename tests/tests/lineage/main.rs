//! What the queues before this one promise, and the bugs that were found in them and here.

mod beanstalkd;
mod regressions;
mod tarantool_queue;
mod xqueue_bugs;
