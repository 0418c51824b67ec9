//! HTTP: accepts connections, and answers requests.

use std::convert::Infallible;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::admission::{Admission, Headers, Refusal, Viewer as Admitted};
use crate::database::Database;
use crate::failure::Failure;
use crate::options::Options;
use crate::page;
use crate::places::{Place, Places};
use crate::query::Query;
use crate::say;
use crate::viewer::{Viewer, Viewers};

/// Maximum number of browser connections.
const CONNECTIONS: usize = 128;

/// A connection without a complete request header within this time is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

const TOKEN: HeaderName = HeaderName::from_static("x-board-token");

type Answer = Response<Full<Bytes>>;

struct Board {
    admission: Admission,
    database: Database,
    viewers: Viewers,
    write: bool,
}

pub async fn serve(options: Options, database: Database) -> Result<Infallible, String> {
    let wanted = options.listen;
    let listener = TcpListener::bind(wanted)
        .await
        .map_err(|error| format!("cannot listen on {wanted}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let folder = if options.login { String::new() } else { format!("/{}", random()?) };
    let (key, token) = (random()?, random()?);
    let admission = Admission { login: options.login, hosts: options.hosts, folder, key, token };
    announce(address, &admission);
    let board =
        Arc::new(Board { admission, database, viewers: Viewers::new(), write: options.write });
    tokio::spawn(forget_idle(board.clone()));
    accept(listener, board).await
}

fn announce(address: SocketAddr, admission: &Admission) {
    let Admission { login, folder, key, .. } = admission;
    if !login {
        say(&format!("http://{address}{folder}/?key={key}"));
        return;
    }
    say(&format!("http://{address}/"));
    if !address.ip().is_loopback() {
        eprintln!(
            "board: passwords cross the network as they are; put a proxy that speaks TLS in front"
        );
    }
}

async fn forget_idle(board: Arc<Board>) {
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    loop {
        minutes.tick().await;
        board.viewers.forget_idle().await;
    }
}

async fn accept(listener: TcpListener, board: Arc<Board>) -> Result<Infallible, String> {
    let places = Places::new(CONNECTIONS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, for example: other connections will close.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let board = board.clone();
        places.start(|place| async move {
            let service = service_fn(|request| answer(&board, &place, request));
            // A browser that disconnects in the middle of a response is not an error.
            let _ended = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    board: &Board,
    place: &Place,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let query = Query::parse(request.uri().query().unwrap_or(""));
    let path = board.admission.path(request.uri().path()).unwrap_or("");
    let is_data = path.starts_with("/api/");
    let mut answer = match board.admit(&request, &query).await {
        Ok(viewer) => {
            let _served = place.serve();
            match board.route(request.method(), path, &query, &viewer).await {
                Ok(answer) => answer,
                Err(failure) => {
                    if failure.status == StatusCode::UNAUTHORIZED {
                        board.viewers.log_out(&viewer).await;
                    }
                    refused(&failure, is_data)
                }
            }
        }
        Err(failure) => refused(&failure, is_data),
    };
    let asks_login = answer.status() == StatusCode::UNAUTHORIZED && board.admission.login;
    board.complete(answer.headers_mut(), asks_login);
    Ok(answer)
}

impl Board {
    async fn admit(
        &self,
        request: &Request<Incoming>,
        query: &Query,
    ) -> Result<Arc<Viewer>, Failure> {
        let header =
            |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let headers = Headers {
            host: header(header::HOST).unwrap_or(""),
            origin: header(header::ORIGIN).unwrap_or(""),
            token: header(TOKEN).unwrap_or(""),
            cookie: header(header::COOKIE).unwrap_or(""),
            authorization: header(header::AUTHORIZATION).unwrap_or(""),
            key: query.get("key"),
            is_post: request.method() == Method::POST,
        };
        match self.admission.admit(&headers) {
            Ok(Admitted::Own) => Ok(self.viewers.own()),
            Ok(Admitted::Login(credentials)) => {
                self.viewers.log_in(&self.database, credentials).await
            }
            Err(Refusal::ForeignHost) => Err(Failure::new(
                StatusCode::MISDIRECTED_REQUEST,
                "the board is not known under this name",
            )
            .with_hint("Start it with --host and the name.")),
            Err(Refusal::ForeignPage) => Err(Failure::new(
                StatusCode::FORBIDDEN,
                "this did not come from the page of this board",
            )
            .with_hint("Reload the page: the board may have been started again.")),
            Err(Refusal::NoKey) => Err(Failure::new(StatusCode::FORBIDDEN, "the key is missing")
                .with_hint("Open the address that the board printed when it was started.")),
            Err(Refusal::NoLogin) => Err(Failure::new(
                StatusCode::UNAUTHORIZED,
                "log in with a database role and its password",
            )),
        }
    }

    async fn route(
        &self,
        method: &Method,
        path: &str,
        query: &Query,
        viewer: &Viewer,
    ) -> Result<Answer, Failure> {
        let no_page = || Failure::new(StatusCode::NOT_FOUND, "there is no such page");
        if method == Method::POST {
            let action = path.strip_prefix("/api/").ok_or_else(no_page)?;
            if !self.write {
                return Err(Failure::new(StatusCode::FORBIDDEN, "this board only looks")
                    .with_hint("Start it with --write."));
            }
            return viewer.act(&self.database, action, query).await.map(data);
        }
        if method != Method::GET {
            return Err(Failure::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "the board knows GET and POST",
            ));
        }
        match path {
            "/" => {
                let page = page::index(&self.admission.token, self.write);
                let mut answer = response(StatusCode::OK, "text/html; charset=utf-8", page);
                let cookie = self.admission.cookie();
                if let Some(Ok(cookie)) = cookie.map(|cookie| HeaderValue::from_str(&cookie)) {
                    answer.headers_mut().insert(header::SET_COOKIE, cookie);
                }
                Ok(answer)
            }
            "/api/board" => viewer.look(&self.database, query).await.map(data),
            _ => {
                let (kind, content) = page::file(path).ok_or_else(no_page)?;
                Ok(response(StatusCode::OK, kind, content))
            }
        }
    }

    fn complete(&self, headers: &mut HeaderMap, asks_login: bool) {
        for (name, value) in [
            (header::CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "same-origin"),
            (header::CACHE_CONTROL, "no-store"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if asks_login {
            let realm = "Basic realm=\"xqueue board: database role\", charset=\"UTF-8\"";
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(realm));
        }
    }
}

fn data(json: String) -> Answer {
    response(StatusCode::OK, "application/json", json)
}

fn refused(failure: &Failure, is_data: bool) -> Answer {
    if is_data {
        return response(failure.status, "application/json", failure.json());
    }
    let page = page::refusal(&failure.message, failure.hint.as_deref().unwrap_or(""));
    response(failure.status, "text/html; charset=utf-8", page)
}

fn response(status: StatusCode, kind: &'static str, content: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(content.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Returns 128 random bits in hexadecimal.
fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
