# Ruby's ActiveRecord: tasks as models, migrations, dumps of the schema, fixtures, the query cache, the pool.

require "active_record"
require "active_record/fixtures"
require "fileutils"
require "securerandom"
require "tmpdir"

# All tables are in a separate schema, because ActiveRecord dumps whole schemas, and disables the triggers of all their tables.
SCHEMA = "active_record_#{SecureRandom.hex}"
FOLDER = Dir.mktmpdir
Tasks = ActiveRecord::Tasks::DatabaseTasks
Tasks.env, Tasks.db_dir, Tasks.structure_load_flags = "test", FOLDER, ["--output=#{File::NULL}"]
ActiveRecord::Base.dump_schemas = :schema_search_path
SERVER = { adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"], username: ENV["PGUSER"], database: ENV["PGDATABASE"] }
ActiveRecord::Base.establish_connection(SERVER.merge(schema_search_path: SCHEMA, min_messages: "warning", pool: 2))
ActiveRecord::Migration.verbose = false
ActiveRecord::Schema.verbose = false

class Job < ActiveRecord::Base
  attr_readonly :status, :owner

  # A take that the query cache answers would give the same tasks again.
  def self.take_tasks(timeout: 0.seconds, count: 1)
    uncached { find_by_sql(["SELECT * FROM xqueue.take(NULL::jobs, ?, ?)", timeout.iso8601, count]) }
  end

  def self.put(tasks)
    uncached { find_by_sql(["SELECT * FROM xqueue.put(NULL::jobs, ?)", tasks.to_json]) }
  end

  def self.ack(*ids)
    uncached { find_by_sql(["SELECT * FROM xqueue.ack(NULL::jobs, ARRAY[?])", ids]) }
  end

  def ack
    Job.ack(id)
  end

  # The number of tasks: 0 if it was taken away meanwhile.
  def release(error)
    release = "SELECT xqueue.release('jobs', ?, error => ?, if_held => true)"
    Job.connection.execute(Job.sanitize_sql([release, id, error])).ntuples
  end
end

class MakeJobs < ActiveRecord::Migration[6.1]
  def change
    create_table :jobs do |t|
      t.text :url, null: false
      t.jsonb :options
    end
  end
end

class MakeQueue < ActiveRecord::Migration[6.1]
  def up
    execute %q(SELECT xqueue.upgrade('jobs', '{"features": {"retry": true}}'))
  end

  def down
    execute "SELECT xqueue.downgrade('jobs', drop_columns => true)"
  end
end

def db = ActiveRecord::Base.connection
def value(sql, on: db) = on.uncached { on.select_value(sql) }

def equal(actual, expected)
  raise "expected #{expected.inspect}, got #{actual.inspect}" unless actual == expected
end

def wait_until
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 20
  until yield
    raise "waited for 20 s in vain" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

    sleep 0.01
  end
end

def fails(error)
  yield
rescue ActiveRecord::StatementInvalid => e
  equal(e.cause.class, error)
  raise "no hint: #{e}" unless e.cause.result.error_field(PG::PG_DIAG_MESSAGE_HINT)
else
  raise "it did not fail with #{error}"
end

# The work of a consumer under test, which the program attempt does. At c the consumer is asked to stop.
class Work
  attr_reader :stopped

  def attempt(step)
    system(ENV["XQUEUE_ATTEMPT"], "#{SCHEMA}.jobs", step) or raise "the work failed"
    @stopped = step == "c"
  end
end

def consume(work)
  until work.stopped
    begin
      # One connection, because tasks belong to it.
      Job.connection_pool.with_connection { take_tasks(work) }
    rescue ActiveRecord::StatementInvalid, ActiveRecord::ConnectionNotEstablished, PG::Error => e
      # The server restarts, or ended the connection: its tasks are ready again. The next checkout connects again.
      puts e.message
      Job.connection_pool.release_connection
      sleep 0.2
    end
  end
end

def take_tasks(work)
  until work.stopped
    Job.take_tasks(timeout: 5.seconds, count: 10).each do |job|
      break if work.stopped

      work.attempt(job.url)
      Job.transaction { job.ack } # this transaction writes the results too
    rescue StandardError => e
      # The others can be lost too, with the connection, if ActiveRecord has reconnected, which it does from 7.1 on.
      break if job.release(e.message) == 0
    end
    # Unstarted tasks are ready again immediately; the pool would not give them back.
    Job.connection.execute("SELECT xqueue.give_back()")
  end
end

# Models behind PgBouncer. PgBouncer before 1.21 does not support prepared statements.
class Pooled < ActiveRecord::Base
  self.abstract_class = true
  PGBOUNCER = { host: ENV["POOLER_HOST"], port: ENV["POOLER_PORT"], prepared_statements: false, advisory_locks: false, pool: 1 }.freeze
end

# The next transaction can run on a server connection without this setting, so each transaction names the schema.
def pooled_transaction
  Pooled.transaction do
    Pooled.connection.execute("SET LOCAL search_path = #{SCHEMA}")
    yield(->(sql) { value(sql, on: Pooled.connection) })
  end
end

def works
  job = Job.create!(url: "works")
  equal(Job.take_tasks(timeout: 5.seconds), [job])
  job.ack
  equal(value("SELECT xqueue.check('jobs')->'problems'"), "[]")
end

TESTS = {
  "a migration makes the queue and unmakes it" => lambda do
    queues = -> { value("SELECT count(*) FROM xqueue.queues WHERE queue = 'jobs'::regclass") }
    equal(queues.call, 1)
    MakeQueue.migrate(:down)
    equal([queues.call, db.columns("jobs").map(&:name)], [0, %w[id url options]])
    MakeQueue.migrate(:up)
    works
  end,

  "create! puts, take gives models, ack deletes" => lambda do
    job = Job.create!(url: "a", options: { depth: [1, 2] })
    equal([job.reload.status, job.owner], ["R", nil])
    taken, = Job.take_tasks(timeout: 5.seconds)
    equal([taken, taken.url, taken.options, taken.status], [job, "a", { "depth" => [1, 2] }, "T"])
    equal(taken.owner, value("SELECT xqueue.identify()"))
    equal(taken.ack, [taken])
  end,

  "a batch is put as JSON or by insert_all!, and acked as an array, with binds and by row" => lambda do
    jobs = Job.put([{ url: "a" }, { url: "b" }]).sort_by(&:id)
    Job.insert_all!([{ url: "c" }, { url: "d" }, { url: "e" }])
    equal(Job.take_tasks(count: 5).map(&:url), %w[a b c d e])
    equal(Job.ack(*jobs.map(&:id)).sort_by(&:id), jobs)
    ids = Job.order(:id).ids
    db.exec_query("SELECT xqueue.ack($1, $2)", "ack", ["jobs", ids[0]])
    db.exec_query("SELECT xqueue.ack('jobs', $1)", "ack", [{ id: ids[1] }.to_json])
    equal(Job.find_by_sql(["SELECT (xqueue.ack(j)).* FROM jobs j WHERE url = ?", "e"]).map(&:url), ["e"])
  end,

  "save! leaves status and owner alone" => lambda do
    Job.create!(url: "a")
    job, = Job.take_tasks
    owner = job.owner
    job.assign_attributes(url: "b", status: "R", owner: nil)
    job.save!
    equal(job.reload.attributes.values_at("url", "status", "owner"), ["b", "T", owner])
    job.ack
  end,

  "the query cache keeps out of take" => lambda do
    Job.put([{ url: "a" }, { url: "b" }])
    Job.cache { equal(2.times.flat_map { Job.take_tasks.map(&:url) }, %w[a b]) }
    Job.ack(*Job.ids)
  end,

  "an error is the cause, with its class and hint" => lambda do
    job = Job.create!(url: "a")
    fails(PG::NoDataFound) { Job.ack(job.id + 1000) }
    fails(PG::ObjectNotInPrerequisiteState) { job.ack }
    fails(PG::UndefinedColumn) { Job.put([{ nothing: 1 }]) }
    Job.take_tasks.each(&:ack)
  end,

  "a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun" => lambda do
    work = Work.new
    work.attempt("begin")
    consume(work)
    work.attempt("end")
  end,

  "through PgBouncer, take and ack in one transaction" => lambda do
    %w[a b].each { |url| Job.create!(url: url) }
    %w[a b].each do |url|
      pooled_transaction do |value|
        id = value.call("SELECT id FROM xqueue.take(NULL::jobs, '5s')")
        equal(value.call("SELECT url FROM xqueue.ack(NULL::jobs, #{id})"), url)
      end
    end
  end,

  "fixtures, which disable all triggers, are tasks; the triggers fire always again" => lambda do
    triggers = -> { value("SELECT string_agg(DISTINCT tgenabled, '') FROM pg_trigger WHERE tgname LIKE 'xqueue%' AND tgrelid = 'jobs'::regclass") }
    db.disable_referential_integrity { equal(triggers.call, "D") }
    File.write("#{FOLDER}/jobs.yml", { "one" => { "url" => "a" }, "two" => { "url" => "b" } }.to_json)
    ActiveRecord::FixtureSet.create_fixtures(FOLDER, "jobs")
    wait_until { triggers.call == "A" && value("SELECT xqueue.stats('jobs')->'tasks'->'ready'") == "2" }
    equal(Job.take_tasks(timeout: 5.seconds, count: 2).map(&:url).sort, %w[a b])
    Job.ack(*Job.ids)
    works
  end,

  "schema.rb and structure.sql have the table, and an upgrade makes it a queue again" => lambda do
    %i[ruby sql].each do |format|
      config = ActiveRecord::Base.connection_db_config
      Tasks.dump_schema(config, format)
      db.execute("DROP SCHEMA #{SCHEMA} CASCADE")
      db.execute("CREATE SCHEMA #{SCHEMA}") if format == :ruby
      Tasks.load_schema(config, format)
      db.execute <<~SQL
        SELECT xqueue.upgrade('jobs', '{"fields": {"status": "status", "owner": "owner"}}')
      SQL
      works
    end
  end
}

begin
  db.execute("CREATE SCHEMA #{SCHEMA}")
  Pooled.establish_connection(SERVER.merge(Pooled::PGBOUNCER))
  [MakeJobs, MakeQueue].each { |migration| migration.migrate(:up) }
  TESTS.each do |name, test|
    test.call
    equal(Job.count, 0)
    puts "ok - #{name}"
  rescue StandardError => e
    puts "not ok - #{name}", e.full_message(highlight: false)
    Job.delete_all
  end
ensure
  db.execute("DROP SCHEMA IF EXISTS #{SCHEMA} CASCADE")
  FileUtils.rm_r(FOLDER)
end
