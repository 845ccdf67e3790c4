//! The table of one driver's connections: everything about them that does not depend on how bytes are moved.
//!
//! Slots are dense and reused. A name ([`ConnId`]) is a slot and the generation of its occupant. An occupant
//! leaves in two steps: when the server closes it, its name stops working; when nothing of it is left in the
//! kernel, the slot is freed and the generation increases. `L` is the driver's own part (a descriptor, what
//! is armed).
//!
//! ```text
//!   kernel ──▶ input ──take_io──▶ server ──put_io──▶ output ──▶ sending ──▶ kernel
//!                                 output_mut ────────▲ (marks dirty; flushed when the next turn begins)
//! ```
//!
//! Invariants: a dirty connection's slot is in `dirty` (it may also be there for an earlier occupant:
//! flushing a clean connection does nothing); `Data` is reported at most once per connection and turn,
//! `Closed` once; the input of a closing connection stays empty.

use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;

use resp::Output;

use crate::Config;
use crate::codec::{Codec, Coded, Heard};
use crate::connection::{Care, Connection, ConnectionState, Io, Sent, Usage};
use crate::event::{ConnId, Event};
use crate::input::InputBuffer;
use crate::pool::BufferPool;

/// Care flags of connections whose input is not reported.
const UNREPORTED: Care = Care::PAUSED.union(Care::DETACHING);
/// Care flags of connections whose input needs special handling.
const UNUSUAL_INPUT: Care = UNREPORTED.union(Care::CODED);

#[derive(Debug)]
struct ConnectionSlot<L> {
    generation: u32,
    occupant: Option<Connection<L>>,
}

/// Bounds that the table enforces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) paused_input_bytes_max: usize,
    pub(crate) close_timeout_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Connections<L> {
    slots: Vec<ConnectionSlot<L>>,
    free: Vec<u32>,
    dirty: Vec<u32>,
    /// The last turn's `dirty`, kept for its memory.
    flushing: Vec<u32>,
    resumed: Vec<ConnId>,
    /// Connections that are being detached, and still have something in the kernel, or had a turn ago.
    detaching: Vec<ConnId>,
    /// Deadlines of closing connections, earliest first, because all get the same time.
    closing: VecDeque<(u64, ConnId)>,
    /// Held output may be sent up to this slice.
    released: u64,
    /// Output that waits for one of these slices is never sent.
    lost: RangeInclusive<u64>,
    /// Connections whose output waits for a slice, with that slice.
    holding: Vec<(u64, ConnId)>,
    /// Whether the list above has grown in this turn: the server has to know which slices are awaited before
    /// the thread sleeps.
    pub(crate) is_held_anew: bool,
    pub(crate) pool: BufferPool,
    pub(crate) turn: u64,
    /// How often something was sent.
    pub(crate) send_count: u64,
    limits: Limits,
}

impl Limits {
    pub(crate) fn of(config: &Config) -> Limits {
        Limits {
            paused_input_bytes_max: config.paused_input_bytes_max,
            close_timeout_ns: u64::try_from(config.close_timeout.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

impl<L> Connections<L> {
    pub(crate) fn new(limits: Limits) -> Connections<L> {
        Connections {
            slots: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            flushing: Vec::new(),
            resumed: Vec::new(),
            detaching: Vec::new(),
            closing: VecDeque::new(),
            released: 0,
            lost: RangeInclusive::new(1, 0),
            holding: Vec::new(),
            is_held_anew: false,
            pool: BufferPool::default(),
            turn: 0,
            send_count: 0,
            limits,
        }
    }

    pub(crate) fn insert(&mut self, link: L) -> ConnId {
        self.insert_connection(Connection::new(link))
    }

    fn insert_connection(&mut self, connection: Connection<L>) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(ConnectionSlot { generation: 0, occupant: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 descriptors exist")
        });
        let place = &mut self.slots[slot as usize];
        place.occupant = Some(connection);
        ConnId { slot, generation: place.generation }
    }

    /// The occupant of a slot, in any state.
    pub(crate) fn occupant(&mut self, slot: u32) -> Option<&mut Connection<L>> {
        self.slots.get_mut(slot as usize)?.occupant.as_mut()
    }

    /// The occupant and the spare memory, which are often needed together.
    pub(crate) fn occupant_and_pool(&mut self, slot: u32) -> Option<(&mut Connection<L>, &mut BufferPool)> {
        Some((self.slots.get_mut(slot as usize)?.occupant.as_mut()?, &mut self.pool))
    }

    /// The occupant, in any state, if it still has this name.
    pub(crate) fn occupant_named(&mut self, id: ConnId) -> Option<&mut Connection<L>> {
        let place = self.slots.get_mut(id.slot as usize)?;
        if place.generation == id.generation { place.occupant.as_mut() } else { None }
    }

    /// The connection, if the name still works.
    pub(crate) fn open(&mut self, id: ConnId) -> Option<&mut Connection<L>> {
        self.occupant_named(id).filter(|connection| connection.state == ConnectionState::Open)
    }

    /// Whether there are connections, in any state.
    pub(crate) fn has_some(&self) -> bool {
        self.free.len() < self.slots.len()
    }

    /// Number of slots, occupied or not.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn name(&self, slot: u32) -> ConnId {
        ConnId { slot, generation: self.slots[slot as usize].generation }
    }

    /// Frees the slot. The caller has made sure that nothing of it is in the kernel.
    pub(crate) fn free(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let Some(connection) = place.occupant.take() else { return };
        place.generation = place.generation.wrapping_add(1);
        self.pool.give(connection.input.into_memory());
        self.free.push(slot);
    }

    // A connection goes to another driver.

    /// Stops reporting input, and begins to detach the connection. False if the name does not work.
    pub(crate) fn begin_detaching(&mut self, id: ConnId) -> bool {
        let Some(connection) = self.open(id) else { return false };
        if !connection.care.contains(Care::DETACHING) {
            connection.care.insert(Care::DETACHING);
            self.detaching.push(id);
        }
        true
    }

    /// The connection stays: input that arrived meanwhile is reported.
    pub(crate) fn end_detaching(&mut self, id: ConnId) {
        if let Some(connection) = self.open(id)
            && connection.care.contains(Care::DETACHING)
        {
            connection.care.remove(Care::DETACHING);
            self.resumed.push(id);
            self.detaching.retain(|other| *other != id);
        }
    }

    /// Whether a detaching connection can be reported, because it has nothing left to send. `is_free` tells
    /// whether its link has nothing left in the kernel.
    #[inline]
    pub(crate) fn has_detached(&mut self, is_free: impl Fn(&L) -> bool) -> bool {
        !self.detaching.is_empty() && self.find_detached(&is_free).is_some()
    }

    #[cold]
    fn find_detached(&mut self, is_free: &impl Fn(&L) -> bool) -> Option<usize> {
        let mut detaching = std::mem::take(&mut self.detaching);
        detaching.retain(|id| self.open(*id).is_some());
        self.detaching = detaching;
        (0..self.detaching.len()).find(|index| {
            let id = self.detaching[*index];
            self.open(id).is_some_and(|connection| connection.is_quiet() && is_free(&connection.link))
        })
    }

    /// Reports all such connections.
    pub(crate) fn report_detached(&mut self, is_free: impl Fn(&L) -> bool, events: &mut Vec<Event>) {
        while let Some(index) = self.find_detached(&is_free) {
            events.push(Event::Detached { conn: self.detaching.swap_remove(index) });
        }
    }

    /// Takes out a connection that was reported as detached, if it still is: its name stops working.
    pub(crate) fn take(&mut self, id: ConnId, is_free: impl Fn(&L) -> bool) -> Option<Connection<L>> {
        self.open(id).filter(|connection| {
            connection.care.contains(Care::DETACHING) && connection.is_quiet() && is_free(&connection.link)
        })?;
        let place = &mut self.slots[id.slot as usize];
        let connection = place.occupant.take();
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.slot);
        connection
    }

    /// Adds a connection of another driver. Its received input is reported in the next turn.
    pub(crate) fn attach(&mut self, mut connection: Connection<L>) -> ConnId {
        connection.care.remove(Care::DETACHING);
        connection.reported_turn = 0;
        connection.has_unreported_input = !connection.input.is_empty();
        let id = self.insert_connection(connection);
        self.resumed.push(id);
        id
    }

    // Operations of the server.

    /// Passes the connection's bytes through `codec` from now on. The connection must not have received or
    /// sent any yet.
    pub(crate) fn encode(&mut self, id: ConnId, codec: Box<dyn Codec>) {
        let Some(connection) = self.open(id) else { return };
        connection.care.insert(Care::CODED);
        connection.coded = Some(Box::new(Coded::new(codec)));
        // A client speaks first.
        self.mark_dirty(id.slot);
    }

    /// Lets output that is held up to `slice` be sent when the next turn begins.
    pub(crate) fn release(&mut self, slice: u64) {
        self.released = slice;
        let mut holding = std::mem::take(&mut self.holding);
        holding.retain(|&(held, id)| {
            if held > slice {
                return true;
            }
            if self.lost.contains(&held) {
                return self.open(id).is_some();
            }
            if let Some(connection) = self.occupant_named(id) {
                connection.is_holding = false;
                self.mark_dirty(id.slot);
            }
            false
        });
        self.holding = holding;
    }

    /// Whether output of a connection waits for a slice.
    #[inline]
    pub(crate) fn is_holding(&self) -> bool {
        !self.holding.is_empty()
    }

    /// The lowest slice that output of a connection waits for.
    pub(crate) fn held_for(&self) -> Option<u64> {
        self.holding.iter().map(|&(slice, _)| slice).min()
    }

    /// From now on output that waits for one of these slices is never sent.
    pub(crate) fn lose(&mut self, slices: RangeInclusive<u64>) {
        self.lost = slices;
    }

    /// The connections whose output waits for a lost slice.
    pub(crate) fn losers(&self) -> Vec<ConnId> {
        if self.lost.is_empty() {
            return Vec::new();
        }
        self.holding.iter().filter(|(held, _)| self.lost.contains(held)).map(|&(_, id)| id).collect()
    }

    pub(crate) fn take_io(&mut self, id: ConnId) -> Option<Io> {
        let connection = self.open_with_memory(id)?;
        connection.has_unreported_input = false;
        Some(Io {
            input: std::mem::take(&mut connection.input),
            output: std::mem::take(&mut connection.output),
        })
    }

    pub(crate) fn put_io(&mut self, id: ConnId, mut io: Io) {
        if self.open(id).is_none() {
            return;
        }
        let Some((connection, pool)) = self.occupant_and_pool(id.slot) else { return };
        if !connection.input.is_empty() {
            io.input.append(connection.input.as_slice());
        }
        connection.input = io.input;
        if connection.input.is_empty() && connection.input.capacity() > 0 {
            pool.give(std::mem::take(&mut connection.input).into_memory());
        }
        if !connection.output.is_empty() {
            io.output.append(&mut connection.output);
        }
        connection.output = io.output;
        connection.rest();
        if !connection.output.is_empty() {
            self.mark_dirty(id.slot);
        }
    }

    pub(crate) fn output_mut(&mut self, id: ConnId) -> Option<&mut Output> {
        self.open(id)?;
        self.mark_dirty(id.slot);
        self.open_with_memory(id).map(|connection| &mut connection.output)
    }

    /// The connection, with spare memory for its output.
    fn open_with_memory(&mut self, id: ConnId) -> Option<&mut Connection<L>> {
        self.open(id)?;
        let (connection, pool) = self.occupant_and_pool(id.slot)?;
        if connection.is_output_bare {
            connection.output.recycle(pool.take());
        }
        connection.is_output_bare = false;
        Some(connection)
    }

    pub(crate) fn check_sent(&mut self, id: ConnId) -> Option<Sent> {
        let connection = self.open(id)?;
        let end = connection.output.end();
        let pending_bytes = connection.output.len() + connection.sending.len_bytes();
        if pending_bytes == 0 {
            connection.rest();
        }
        Some(Sent { end, pending_bytes, slack_bytes: connection.output.slack_bytes() })
    }

    pub(crate) fn output_pending_bytes(&mut self, id: ConnId) -> usize {
        self.open(id).map_or(0, |connection| connection.output.len() + connection.sending.len_bytes())
    }

    pub(crate) fn usage(&mut self, id: ConnId) -> Usage {
        self.open(id).map_or_else(Usage::default, |connection| Usage {
            input_bytes: connection.input.len(),
            input_capacity_bytes: connection.input.capacity(),
            output_bytes: connection.output.len() + connection.sending.len_bytes(),
            output_capacity_bytes: connection.output.capacity_bytes()
                + connection.sending.len_bytes()
                + connection.coded.as_ref().map_or(0, |coded| coded.memory_bytes()),
        })
    }

    pub(crate) fn pause_reading(&mut self, id: ConnId) {
        if let Some(connection) = self.open(id) {
            connection.care.insert(Care::PAUSED);
        }
    }

    pub(crate) fn resume_reading(&mut self, id: ConnId) {
        if let Some(connection) = self.open(id)
            && connection.care.contains(Care::PAUSED)
        {
            connection.care.remove(Care::PAUSED);
            self.resumed.push(id);
        }
    }

    pub(crate) fn await_sending(&mut self, id: ConnId) {
        if let Some(connection) = self.open(id) {
            connection.care.insert(Care::AWAITED);
        }
    }

    /// Begins to close a connection after its output. False if the name does not work.
    pub(crate) fn begin_close(&mut self, id: ConnId, now_ns: u64) -> bool {
        let Some(connection) = self.open(id) else { return false };
        connection.state = ConnectionState::Flushing;
        connection.input = InputBuffer::new();
        let deadline_ns = now_ns.saturating_add(self.limits.close_timeout_ns);
        self.closing.push_back((deadline_ns, id));
        self.mark_dirty(id.slot);
        true
    }

    // Operations of the driver.

    pub(crate) fn begin_turn(&mut self) {
        self.turn += 1;
        self.is_held_anew = false;
    }

    pub(crate) fn mark_dirty(&mut self, slot: u32) {
        if let Some(connection) = self.slots[slot as usize].occupant.as_mut()
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    pub(crate) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The connections to flush now; those marked from here on are for the next turn.
    pub(crate) fn take_dirty(&mut self) -> Vec<u32> {
        let mut dirty = std::mem::take(&mut self.flushing);
        std::mem::swap(&mut dirty, &mut self.dirty);
        for &slot in &dirty {
            if let Some(connection) = self.slots[slot as usize].occupant.as_mut() {
                connection.is_dirty = false;
            }
        }
        dirty
    }

    /// Returns the list from [`take_dirty`](Connections::take_dirty).
    pub(crate) fn flushed(&mut self, mut dirty: Vec<u32>) {
        dirty.clear();
        self.flushing = dirty;
    }

    /// Records that the socket accepted `len` bytes. True if all output has been sent.
    #[inline]
    pub(crate) fn sent(&mut self, slot: u32, len: usize, events: &mut Vec<Event>) -> bool {
        self.send_count += 1;
        let Some((connection, pool)) = self.occupant_and_pool(slot) else { return false };
        connection.sending.advance(len, pool);
        if connection.care.contains(Care::AWAITED) {
            connection.care.remove(Care::AWAITED);
            events.push(Event::Wake);
        }
        let is_done = connection.sending.is_empty() && connection.output.is_empty();
        if is_done {
            connection.is_output_bare = true;
        }
        is_done
    }

    /// Checks output again that could not be sent, because it is held or the codec does not accept it yet.
    /// True if there is something to send now.
    #[cold]
    pub(crate) fn is_freed(&mut self, slot: u32) -> bool {
        let (released, lost, id) = (self.released, self.lost.clone(), self.name(slot));
        let Some((connection, pool)) = self.occupant_and_pool(slot) else { return false };
        match connection.output.release_if(|held| held <= released && !lost.contains(&held)) {
            None => {
                connection.fill(pool);
                !connection.sending.is_empty()
            }
            Some(slice) => {
                connection.is_excused = true;
                if !std::mem::replace(&mut connection.is_holding, true) {
                    self.holding.push((slice, id));
                    self.is_held_anew = true;
                }
                false
            }
        }
    }

    /// Appends received bytes and reports them. False if the driver should check again whether to read: a
    /// paused connection has enough, or the peer has ended.
    #[inline]
    pub(crate) fn received(&mut self, slot: u32, bytes: &[u8], events: &mut Vec<Event>) -> bool {
        let conn = self.name(slot);
        let turn = self.turn;
        let Some((connection, pool)) = self.occupant_and_pool(slot) else { return true };
        if connection.state != ConnectionState::Open || connection.care.intersects(UNUSUAL_INPUT) {
            return self.received_with_care(slot, bytes, events);
        }
        connection.lend_input(pool);
        connection.receive(bytes, pool);
        if connection.reported_turn != turn {
            connection.reported_turn = turn;
            events.push(Event::Data { conn });
        }
        true
    }

    /// Appends received bytes like [`received`](Self::received), for a connection that is paused or closing,
    /// or has a codec.
    #[cold]
    fn received_with_care(&mut self, slot: u32, bytes: &[u8], events: &mut Vec<Event>) -> bool {
        let conn = self.name(slot);
        let (turn, limits) = (self.turn, self.limits);
        let Some((connection, pool)) = self.occupant_and_pool(slot) else { return true };
        let before = connection.input.len();
        let heard = if connection.coded.is_some() {
            connection.lend_input(pool);
            connection.decode(bytes)
        } else if connection.state == ConnectionState::Open {
            connection.lend_input(pool);
            connection.receive(bytes, pool);
            Ok(Heard::More)
        } else {
            return true;
        };
        if connection.state != ConnectionState::Open {
            connection.input = InputBuffer::new();
        } else if connection.input.len() == before {
            // A part of a frame, or of a handshake.
        } else if connection.care.intersects(UNREPORTED) {
            connection.has_unreported_input = true;
        } else if connection.reported_turn != turn {
            connection.reported_turn = turn;
            events.push(Event::Data { conn });
        }
        let has_enough =
            connection.care.contains(Care::PAUSED) && connection.input.len() >= limits.paused_input_bytes_max;
        if connection.has_to_answer() {
            self.mark_dirty(slot);
        }
        match heard {
            Ok(Heard::More) => !has_enough,
            Ok(Heard::Goodbye) => {
                self.ended(slot, None, events);
                false
            }
            Err(error) => {
                self.failed(slot, error, events);
                true
            }
        }
    }

    /// The peer violates the codec's protocol: only the codec's answer to that is still sent.
    fn failed(&mut self, slot: u32, error: io::ErrorKind, events: &mut Vec<Event>) {
        let conn = self.name(slot);
        let Some(connection) = self.occupant(slot) else { return };
        connection.output.clear();
        if connection.state == ConnectionState::Open && !connection.has_ended {
            events.push(Event::Closed { conn, error: Some(error) });
        }
        self.mark_dirty(slot);
    }

    /// Whether the codec has failed. If so, a close waits until its last output is sent.
    pub(crate) fn has_last_words(&mut self, id: ConnId) -> bool {
        self.open(id).is_some_and(|connection| connection.has_failed() && !connection.is_broken())
    }

    /// Whether to read from the socket: not after the peer has ended, nor when a paused connection has
    /// enough.
    pub(crate) fn wants_input(&mut self, slot: u32) -> bool {
        let max = self.limits.paused_input_bytes_max;
        self.occupant(slot).is_some_and(|connection| {
            let is_paused = connection.care.contains(Care::PAUSED);
            let is_wanted = !connection.care.contains(Care::DETACHING);
            !connection.has_ended && is_wanted && (!is_paused || connection.input.len() < max)
        })
    }

    /// Records that the peer will send nothing more, and reports that once. After an error nothing is sent
    /// either.
    pub(crate) fn ended(&mut self, slot: u32, error: Option<io::ErrorKind>, events: &mut Vec<Event>) {
        let conn = self.name(slot);
        let Some(connection) = self.occupant(slot) else { return };
        let is_news =
            !connection.has_ended && connection.state == ConnectionState::Open && !connection.has_failed();
        let error = error.or_else(|| connection.truncation());
        connection.has_ended = true;
        if error.is_some() {
            connection.care.insert(Care::BROKEN);
        }
        if is_news {
            events.push(Event::Closed { conn, error });
        }
    }

    /// Takes one connection that was resumed since the last turn and reports the input that arrived during
    /// its pause. The driver resumes reading.
    pub(crate) fn take_resumed(&mut self, events: &mut Vec<Event>) -> Option<u32> {
        let turn = self.turn;
        while let Some(conn) = self.resumed.pop() {
            let Some(connection) = self.open(conn) else { continue };
            let is_paused = connection.care.intersects(UNREPORTED);
            if connection.has_unreported_input && !is_paused && connection.reported_turn != turn {
                connection.has_unreported_input = false;
                connection.reported_turn = turn;
                events.push(Event::Data { conn });
            }
            return Some(conn.slot);
        }
        None
    }

    /// The next deadline of a closing connection.
    pub(crate) fn next_deadline_ns(&mut self) -> Option<u64> {
        while let Some(&(deadline_ns, id)) = self.closing.front() {
            if self.occupant_named(id).is_some() {
                return Some(deadline_ns);
            }
            self.closing.pop_front();
        }
        None
    }

    /// A closing connection whose deadline has passed. Held output is not the peer's fault: such a connection
    /// gets the whole time again, also after the output is released.
    #[inline]
    pub(crate) fn take_overdue(&mut self, now_ns: u64) -> Option<u32> {
        if self.closing.is_empty() { None } else { self.take_overdue_of(now_ns) }
    }

    #[inline(never)]
    fn take_overdue_of(&mut self, now_ns: u64) -> Option<u32> {
        while self.next_deadline_ns()? <= now_ns {
            let (_, id) = self.closing.pop_front()?;
            let is_excused = |connection: &mut Connection<L>| {
                connection.is_holding || std::mem::take(&mut connection.is_excused)
            };
            if self.occupant_named(id).is_some_and(is_excused) {
                self.closing.push_back((now_ns.saturating_add(self.limits.close_timeout_ns), id));
            } else {
                return Some(id.slot);
            }
        }
        None
    }
}
