-- The queue of the article "How to build a high-performance application on Tarantool from scratch": a space with an
-- index by status, a channel for those who wait, and a table of who has taken what.
-- tarantool tarantool.lua SOCKET fsync|write

local fiber = require('fiber')
local socket, wal_mode = arg[1], arg[2]

box.cfg{wal_mode = wal_mode, log_level = 2, memtx_memory = 1024 * 1024 * 1024, checkpoint_interval = 0}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})

local space = box.schema.create_space('queue', {format = {
    {name = 'id', type = 'unsigned'}, {name = 'status', type = 'string'}, {name = 'data', type = '*'}}})
space:create_index('primary', {sequence = true})
space:create_index('status', {parts = {'status', 'id'}})

local READY, TAKEN = 'R', 'T'
local waiting = fiber.channel()
local taken_by, bids = {}, {}

local function wake()
    if waiting:has_readers() then
        waiting:put(true, 0)
    end
end

local function claim(task)
    local session = box.session.id()
    taken_by[task.id] = session
    bids[session] = bids[session] or {}
    bids[session][task.id] = true
    return space:update({task.id}, {{'=', 2, TAKEN}})
end

local function first()
    for _, task in space.index.status:pairs({READY}, {iterator = 'EQ'}) do
        return task
    end
end

local function own(id)
    local session = box.session.id()
    if taken_by[id] ~= session then
        error(('Task %s not taken by you'):format(id))
    end
    taken_by[id] = nil
    bids[session][id] = nil
end

function put(data)
    local task = space:insert{nil, READY, data}
    wake()
    return task.id
end

function take(timeout)
    local deadline = fiber.time() + timeout
    local task = first()
    while not task do
        local left = deadline - fiber.time()
        if left <= 0 then
            return 0
        end
        waiting:get(left)
        task = first()
    end
    return claim(task).id
end

function ack(id)
    own(id)
    space:delete{id}
    return id
end

function put_many(count, data)
    box.begin()
    for _ = 1, count do
        space:insert{nil, READY, data}
    end
    box.commit()
    wake()
    return count
end

function take_many(count)
    local ids = {}
    box.begin()
    for _, task in ipairs(space.index.status:select({READY}, {limit = count})) do
        table.insert(ids, claim(task).id)
    end
    box.commit()
    return ids
end

function ack_many(ids)
    box.begin()
    for _, id in ipairs(ids) do
        own(id)
        space:delete{id}
    end
    box.commit()
    return #ids
end

box.session.on_disconnect(function()
    local session = box.session.id()
    for id in pairs(bids[session] or {}) do
        taken_by[id] = nil
        space:update({id}, {{'=', 2, READY}})
        wake()
    end
    bids[session] = nil
end)

-- Last, so that nobody comes before all is there.
box.cfg{listen = 'unix/:' .. socket}
