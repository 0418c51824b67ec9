//! Promises of the queues before this one, and bugs found in them and here.

mod beanstalkd;
mod regressions;
mod tarantool_queue;
mod xqueue_bugs;
