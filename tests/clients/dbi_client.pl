#!/usr/bin/env perl
# Perl's DBI with DBD::Pg: parameters without a type, arrays, jsonb as text, errors, waiting, PgBouncer.

use v5.32;
use warnings;
use Carp qw(confess croak);
use DBD::Pg qw(:async);
use DBI;
use JSON::PP qw(decode_json encode_json);
use Time::HiRes qw(sleep time);

my $table = 'dbi_jobs';

# With AutoCommit on, begin_work begins a transaction.
sub connect_here {
    my ($where, %options) = @_;
    return DBI->connect('dbi:Pg:' . ($where // ''), undef, undef, { AutoCommit => 1, RaiseError => 1, PrintError => 0, %options });
}

# PgBouncer before 1.21 does not know prepared statements.
sub through_pgbouncer { connect_here("host=$ENV{POOLER_HOST};port=$ENV{POOLER_PORT}", pg_server_prepare => 0) }

my $db = connect_here();

# The ids of new tasks.
sub put {
    my $tasks = $db->selectcol_arrayref("SELECT xqueue.put('$table', ?)", {}, encode_json \@_);
    return sort { $a <=> $b } map { decode_json($_)->{id} } @$tasks;
}

sub take {
    my ($db, $count) = @_;
    return @{ $db->selectall_arrayref("SELECT * FROM xqueue.take(NULL::$table, ?, ?)", { Slice => {} }, '5s', $count // 1) };
}

# Acks an id, or a reference to an array of ids.
sub ack {
    my ($id) = @_;
    return sort { $a <=> $b } @{ $db->selectcol_arrayref("SELECT id FROM xqueue.ack(NULL::$table, ?)", {}, $id) };
}

sub equal {
    my ($actual, $expected) = map { ref ? "@$_" : $_ // 'undef' } @_;
    $actual eq $expected or confess "expected $expected, got $actual";
}

sub until_true(&) {
    my ($condition, $deadline) = (@_, time + 20);
    until ($condition->()) {
        croak 'waited for 20 s in vain' if time > $deadline;
        sleep 0.01;
    }
}

# Returns the hint of the expected error, which must have this SQLSTATE.
sub fails {
    my ($state, $sql, @parameters) = @_;
    eval { $db->do($sql, {}, @parameters); 1 } and confess "$sql did not fail";
    equal($db->state, $state);
    return $db->pg_error_field('hint') // confess "no hint: $@";
}

sub consume {
    my ($work) = @_;
    until ($work->{stopped}) {
        eval { take_tasks(connect_here(), $work); 1 } and next;
        # The server restarts, or ended the connection: its tasks are ready again.
        print $@;
        sleep 0.2;
    }
}

sub take_tasks {
    my ($db, $work) = @_;
    my $take = $db->prepare("SELECT * FROM xqueue.take(NULL::dbi_jobs, ?, ?)");
    # No row if the task was taken away meanwhile.
    my $release = "SELECT xqueue.release('dbi_jobs', ?, error => ?, if_held => true)";
    while (1) {
        for my $job (@{ $db->selectall_arrayref($take, { Slice => {} }, '5s', 10) }) {
            if ($work->{stopped}) {
                # Unstarted tasks are ready again immediately, and use up no attempt.
                $db->do('SELECT xqueue.give_back()');
                return;
            }
            my $is_done = eval {
                attempt($work, $job->{url});
                $db->begin_work;    # the transaction that writes the results too
                $db->do("SELECT xqueue.ack('dbi_jobs', ?)", {}, $job->{id});
                $db->commit;
            };
            next if $is_done;
            my $error = $@;
            $db->rollback unless $db->{AutoCommit};
            $db->do($release, {}, $job->{id}, $error);
        }
    }
}

# The work of a consumer under test, which the program attempt does. At c the consumer is asked to stop.
sub attempt {
    my ($work, $step) = @_;
    system($ENV{XQUEUE_ATTEMPT}, $table, $step) == 0 or die "the work failed\n";
    $work->{stopped} = $step eq 'c';
}

my @tests = (
    'put takes JSON, take gives hashes, ack takes an id' => sub {
        my ($id) = put({ url => 'a', options => { depth => [1, 2] } });
        my ($task) = take($db);
        equal([@$task{qw(id url status)}], [$id, 'a', 'T']);
        equal(decode_json($task->{options})->{depth}, [1, 2]);
        equal($task->{owner}, $db->selectrow_array('SELECT xqueue.identify()'));
        equal([ack($id)], [$id]);
    },

    'a batch is put as a list and acked as an array reference, as text and by row' => sub {
        my @ids = put(map { { url => $_ } } 'a' .. 'f');
        my @tasks = take($db, 6);
        equal([map { $_->{url} } @tasks], ['a' .. 'f']);
        equal([ack([@ids[0, 1]])], [@ids[0, 1]]);
        equal([ack("{$ids[2]}")], [$ids[2]]);
        equal($db->selectrow_array("SELECT (xqueue.ack(t)).url FROM $table t WHERE id = ?", {}, $ids[3]), 'd');
        my $task = $db->selectrow_array("SELECT xqueue.peek('$table', ?)", {}, $ids[4]);
        equal([ack($task)], [$ids[4]]);
        ack($ids[5]);
    },

    'parameters of text, number and undef, prepared or not' => sub {
        for my $prepare (0, 1) {
            local $db->{pg_server_prepare} = $prepare;
            for (1 .. 3) {
                $db->do('SELECT xqueue.put(?::text, ?)', {}, $table, encode_json { url => 'a' });
                my $task = decode_json $db->selectrow_array('SELECT xqueue.take(?::text, ?, ?, ?)', {}, $table, 5, 1, undef);
                $db->do('SELECT xqueue.release(?::text, ?, delay => ?)', {}, $table, $task->{id}, '1 ms');
                take($db);
                equal($db->do('SELECT xqueue.ack(?::text, ?)', {}, $table, $task->{id}), 1);
            }
        }
    },

    'an error has SQLSTATE and hint' => sub {
        my ($id) = put({ url => 'a' });
        my $ack = "SELECT xqueue.ack('$table', ?)";
        equal(fails('P0002', $ack, $id + 1000), 'It has been acked or deleted, or was never put.');
        fails('55000', $ack, $id);
        fails('22004', $ack, undef);
        fails('42703', "SELECT xqueue.put('$table', ?)", '{"nothing": 1}');
        take($db);
        ack($id);
    },

    'an asynchronous take waits for a put; pg_cancel ends it' => sub {
        my $other = connect_here();
        my $consumers = sub { $db->selectrow_array("SELECT xqueue.stats('$table')->'consumers'") };
        my $take = $other->prepare("SELECT id FROM xqueue.take(NULL::$table, '1 min')", { pg_async => PG_ASYNC });
        $take->execute;
        until_true { $consumers->() };
        my ($id) = put({ url => 'a' });
        $take->pg_result;
        equal([$take->fetchrow_array], [$id]);
        $take->execute;
        until_true { $consumers->() };
        $take->pg_cancel;
        equal($other->selectrow_array('SELECT xqueue.give_back()'), 1);
        ack(map { $_->{id} } take($db));
    },

    "a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun" => sub {
        my $work = {};
        attempt($work, 'begin');
        consume($work);
        attempt($work, 'end');
        $db = connect_here() unless $db->ping;
    },

    'through PgBouncer, take and ack in one transaction, and in two transactions of an identified session' => sub {
        my $pooled = through_pgbouncer();
        my @ids = put({ url => 'a' }, { url => 'b' });
        for my $id (@ids) {
            $pooled->begin_work;
            my ($job) = take($pooled);
            equal($job->{id}, $id);
            $pooled->do("SELECT xqueue.ack('dbi_jobs', ?)", {}, $id);
            $pooled->commit;
        }
        my $session = $pooled->selectrow_array("SELECT xqueue.identify(grace => '1 min', local => true)");
        my $in_session = sub {
            $pooled->begin_work;
            $pooled->do('SELECT xqueue.identify(?, local => true)', {}, $session);
            my ($result) = $_[0]->();
            $pooled->commit;
            return $result;
        };
        put({ url => 'a' });
        my $job = $in_session->(sub { take($pooled) });
        $in_session->(sub { $pooled->do("SELECT xqueue.ack('dbi_jobs', ?)", {}, $job->{id}) });
    },
);

while (my ($name, $test) = splice @tests, 0, 2) {
    my $ok = eval { $test->(); equal($db->selectrow_array("SELECT count(*) FROM $table"), 0); 1 };
    say $ok ? "ok - $name" : "not ok - $name\n$@";
    next if $ok;
    $db->rollback unless $db->{AutoCommit};
    $db->do("DELETE FROM $table");
}
