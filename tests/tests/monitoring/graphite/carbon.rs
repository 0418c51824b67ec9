//! A carbon-cache for one test: the part of Graphite that listens and writes whisper files.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use xqueue_tests::{unique, wait_until};

pub struct Carbon {
    pub port: u16,
    folder: PathBuf,
    child: Option<Child>,
}

impl Carbon {
    /// Listens for lines on one port of 127.0.0.1, over TCP and UDP, and stores one point for each second.
    pub fn start() -> Carbon {
        let folder = std::env::temp_dir().join(unique("xqueue_carbon"));
        for part in ["", "storage", "log", "run"] {
            fs::create_dir(folder.join(part)).expect("a folder for carbon is made");
        }
        let mut carbon = Carbon { port: free_port(), folder, child: None };
        for (name, text) in [
            ("storage-schemas.conf", "[all]\npattern = .*\nretentions = 1s:1h\n"),
            ("storage-aggregation.conf", ""),
            ("carbon.conf", &carbon.configuration()),
        ] {
            fs::write(carbon.folder.join(name), text).expect("carbon's configuration is written");
        }
        carbon.restart();
        carbon
    }

    /// Returns carbon.conf. USER is empty, so carbon keeps the user that starts it. Unused protocols get port 0, any
    /// free port.
    fn configuration(&self) -> String {
        let (folder, port) = (self.folder.display(), self.port);
        format!(
            "[cache]\n\
             STORAGE_DIR = {folder}/storage/\n\
             LOCAL_DATA_DIR = {folder}/storage/whisper/\n\
             CONF_DIR = {folder}/\n\
             LOG_DIR = {folder}/log/\n\
             PID_DIR = {folder}/run/\n\
             USER =\n\
             ENABLE_TAGS = False\n\
             MAX_UPDATES_PER_SECOND = inf\n\
             MAX_CREATES_PER_MINUTE = inf\n\
             CARBON_METRIC_INTERVAL = 0\n\
             LINE_RECEIVER_INTERFACE = 127.0.0.1\n\
             LINE_RECEIVER_PORT = {port}\n\
             ENABLE_UDP_LISTENER = True\n\
             UDP_RECEIVER_INTERFACE = 127.0.0.1\n\
             UDP_RECEIVER_PORT = {port}\n\
             PICKLE_RECEIVER_INTERFACE = 127.0.0.1\n\
             PICKLE_RECEIVER_PORT = 0\n\
             CACHE_QUERY_INTERFACE = 127.0.0.1\n\
             CACHE_QUERY_PORT = 0\n"
        )
    }

    /// Starts carbon, after a kill on its old port. It listens when this returns.
    pub fn restart(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.join("console.log"));
        let log = log.expect("carbon's output has a file");
        let pid_file = self.folder.join("run/carbon.pid");
        // A killed carbon leaves this file, and the next one refuses to start while the file exists.
        drop(fs::remove_file(&pid_file));
        let child = Command::new("carbon-cache")
            .arg("--nodaemon")
            .arg(format!("--config={}", self.folder.join("carbon.conf").display()))
            .arg(format!("--pidfile={}", pid_file.display()))
            .args(["--logfile=-", "start"])
            .env("PYTHONWARNINGS", "ignore")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the file is open"))
            .stderr(log)
            .spawn();
        let child = child.unwrap_or_else(|error| {
            panic!(
                "carbon-cache does not start ({error}): install the Debian package graphite-carbon"
            )
        });
        let child = self.child.insert(child);
        wait_until("carbon listens", || {
            if let Some(status) = child.try_wait().expect("carbon is our child") {
                let log = fs::read_to_string(self.folder.join("console.log"));
                panic!("carbon-cache ended: {status}\n{}", log.unwrap_or_default());
            }
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// Sends SIGKILL to carbon's process only.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("carbon can be killed");
            child.wait().expect("carbon is dead");
        }
    }

    /// Returns the last point (unix seconds, value) of a metric; None without a file.
    pub fn last(&self, metric: &str) -> Option<(u32, f64)> {
        let path = format!("storage/whisper/{}.wsp", metric.replace('.', "/"));
        let points = whisper(&fs::read(self.folder.join(path)).ok()?);
        points.into_iter().max_by_key(|(time, _)| *time)
    }
}

impl Drop for Carbon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("carbon's files stay in {}", self.folder.display());
        } else {
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}

/// Returns a port that is free for both protocols at this moment.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Reads a whisper file of one archive, all of it big-endian. A header of 16 bytes ends with the number of archives.
/// Then come the archive's offset, its seconds per point, its number of points, and the points: time and value.
fn whisper(file: &[u8]) -> Vec<(u32, f64)> {
    const HEADER: usize = 16 + 12;
    const POINT: usize = 4 + 8;
    let points = file.get(HEADER..).unwrap_or_default().chunks_exact(POINT).map(|point| {
        let (time, value) = point.split_at(4);
        (
            u32::from_be_bytes(time.try_into().unwrap()),
            f64::from_be_bytes(value.try_into().unwrap()),
        )
    });
    points.filter(|(time, _)| *time != 0).collect()
}
