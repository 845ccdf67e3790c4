------------------------------ MODULE SlotMove ------------------------------
(***************************************************************************)
(* Moving one slot between two groups.                                     *)
(*                                                                         *)
(* A group is abstract here: one replicated log, one serving primary, a    *)
(* term.  "base" is the state that every member of in_sync has             *)
(* acknowledged; "tail" holds operations that the primary has executed and *)
(* that are not acknowledged yet.  A failover raises the term, keeps base, *)
(* and keeps some prefix of tail.  A replaced primary cannot answer        *)
(* clients, but messages that it sent earlier may still arrive: the        *)
(* commit request in etcd's queue, the stream to the target, the           *)
(* confirmation to the source.                                             *)
(*                                                                         *)
(* The slot holds a queue of jobs and one delayed job, "d".  The delayed   *)
(* job stands for everything that a primary writes without a client:       *)
(* expiry, leases, schedules, promotion.                                   *)
(*                                                                         *)
(* "truth" is a ghost: what one linearizable server would hold.  It is     *)
(* changed only when a command is acknowledged.                            *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
  Elems,        \* jobs that clients push, each once
  MaxPops, MaxFailovers, MaxMoves, MaxSessions, MaxBumps, MaxTail,
  UseDelayed, UseWaiter, UseFlush,   \* switch parts off to keep runs small
  Mutant        \* "none", or the name of one deliberate mistake

Groups == {"g1", "g2"}
Other(g) == IF g = "g1" THEN "g2" ELSE "g1"

VARIABLES
  doc,       \* in etcd: revision, owner of the slot, term of each group, the move
  view,      \* view[g]: the document as the primary of g last saw it
  frozen,    \* frozen[g]: the primary of g puts commands on the slot off
  waiting,   \* waiting[g]: a commit request was sent and its outcome is not known
  requests,  \* commit requests that etcd has not processed yet
  base, tail,
  session,   \* session[g]: number of the stream that the source g feeds, 0 if none
  streams,   \* streams[n]: snapshot and later changes of session n
  confirmed, \* confirmed[g]: last position that the source g was told by the target
  waiter,    \* the group where one blocked client waits, or "none"
  flush,     \* one FLUSHALL over the cluster
  used, pops, failovers, bumps,          \* bounds
  truth, delivered, acked, flushed, foreignAck, again      \* ghosts

vars == << doc, view, frozen, waiting, requests, base, tail, session, streams,
           confirmed, waiter, flush, used, pops, failovers, bumps, truth,
           delivered, acked, flushed, foreignAck, again >>

ghosts == << delivered, acked, flushed, foreignAck, again, truth >>

(* ------------------------------ data ---------------------------------- *)

NoImport == [n |-> 0, pos |-> 0]
Empty == [q |-> << >>, d |-> FALSE, import |-> NoImport]

Range(s) == { s[i] : i \in 1..Len(s) }
Count(e, s) == Cardinality({ i \in 1..Len(s) : s[i] = e })

\* What a client, or the primary by itself, does to the slot.
Change(st, op) ==
  CASE op.kind = "push"  -> [st EXCEPT !.q = Append(@, op.e)]
    [] op.kind = "pop"   -> [st EXCEPT !.q = IF @ = << >> THEN @ ELSE Tail(@)]
    [] op.kind = "fire"  -> IF st.d THEN [st EXCEPT !.q = Append(@, "d"), !.d = FALSE] ELSE st
    [] op.kind = "remove"-> [st EXCEPT !.d = FALSE]
    [] op.kind = "flush" -> [st EXCEPT !.q = << >>, !.d = FALSE]

\* Everything that can stand in a group's log.
Apply(st, op) ==
  CASE op.kind = "import" ->
         \* The first record of an import drops whatever the slot still holds.
         \* Without that, keys that the new snapshot lacks stay from an older try.
         IF Mutant = "NoDropAtStart"
         THEN [q |-> IF op.q = << >> THEN st.q ELSE op.q, d |-> st.d \/ op.d,
               import |-> [n |-> op.n, pos |-> 0]]
         ELSE [q |-> op.q, d |-> op.d, import |-> [n |-> op.n, pos |-> 0]]
    [] op.kind = "change" ->
         [Change(st, op.op) EXCEPT !.import.pos = @ + 1]
    [] op.kind = "wake"  -> [st EXCEPT !.q = IF @ = << >> THEN @ ELSE Tail(@)]
    [] op.kind = "hiddenFire" -> Change(st, [kind |-> "fire"])
    [] op.kind = "purge" ->
         IF Mutant = "PurgeDuringImport" THEN [st EXCEPT !.q = << >>, !.d = FALSE] ELSE Empty
    [] OTHER -> Change(st, op)

RECURSIVE Fold(_, _)
Fold(st, ops) == IF ops = << >> THEN st ELSE Fold(Apply(st, Head(ops)), Tail(ops))

Current(g) == Fold(base[g], tail[g])   \* what the primary has in memory

ClientKinds == {"push", "pop", "fire", "remove", "flush"}

(* --------------------------- who may serve ---------------------------- *)

Active(v) == v.move.state = "copying"
MoveTo(v, g) == Active(v) /\ v.move.to = g
MoveFrom(v, g) == Active(v) /\ v.move.from = g

CanServe(g) ==
  \/ view[g].owner = g /\ ~frozen[g]
  \/ /\ Mutant = "ServeBeforeCommit"
     /\ MoveTo(view[g], g)
     /\ frozen[Other(g)]
     /\ base[g].import.n # 0
     /\ base[g].import.n = session[Other(g)]
     /\ base[g].import.pos = Len(streams[base[g].import.n].ops)

(* ------------------------------- init --------------------------------- *)

NoMove == [id |-> 0, from |-> "g1", to |-> "g2", state |-> "none"]
Doc0 == [rev |-> 1, owner |-> "g1", term |-> [g \in Groups |-> 1], move |-> NoMove]
Start == [q |-> << >>, d |-> UseDelayed]

Init ==
  /\ doc = Doc0
  /\ view = [g \in Groups |-> Doc0]
  /\ frozen = [g \in Groups |-> FALSE]
  /\ waiting = [g \in Groups |-> FALSE]
  /\ requests = {}
  /\ base = [g \in Groups |-> IF g = "g1" THEN [Empty EXCEPT !.d = UseDelayed] ELSE Empty]
  /\ tail = [g \in Groups |-> << >>]
  /\ session = [g \in Groups |-> 0]
  /\ streams = << >>
  /\ confirmed = [g \in Groups |-> [n |-> 0, pos |-> 0, term |-> 0]]
  /\ waiter = "none"
  /\ flush = [state |-> IF UseFlush THEN "ready" ELSE "off", todo |-> {}, must |-> {}]
  /\ used = {} /\ pops = 0 /\ failovers = 0 /\ bumps = 0
  /\ truth = Start
  /\ delivered = {} /\ acked = {} /\ flushed = {} /\ foreignAck = FALSE /\ again = FALSE

(* ------------------------------ clients ------------------------------- *)

Room(g, n) == Len(tail[g]) + n <= MaxTail

Log(g, ops) == tail' = [tail EXCEPT ![g] = @ \o ops] /\ UNCHANGED streams

\* A client's command.  (The mutant sends it to the target before it is acknowledged.)
LogCommand(g, ops) ==
  /\ tail' = [tail EXCEPT ![g] = @ \o ops]
  /\ streams' = IF session[g] # 0 /\ Mutant = "StreamUnacked"
                THEN [streams EXCEPT ![session[g]].ops = @ \o ops] ELSE streams

\* A push, or a delayed job that comes due, is handed to a client that waits here.
LogPush(g, op) ==
  IF waiter = g /\ Current(g).q = << >>
  THEN LogCommand(g, << op, [kind |-> "pop"] >>) /\ waiter' = "none"
  ELSE LogCommand(g, << op >>) /\ UNCHANGED waiter

Push(g, e) ==
  /\ CanServe(g) /\ Room(g, IF waiter = g THEN 2 ELSE 1) /\ e \notin used
  /\ used' = used \cup {e}
  /\ LogPush(g, [kind |-> "push", e |-> e])
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  flush, pops, failovers, bumps, ghosts >>

Pop(g) ==
  /\ CanServe(g) /\ Room(g, 1) /\ pops < MaxPops /\ Current(g).q # << >>
  /\ pops' = pops + 1
  /\ LogCommand(g, << [kind |-> "pop"] >>)
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  waiter, flush, used, failovers, bumps, ghosts >>

Remove(g) ==     \* a client removes the delayed job
  /\ CanServe(g) /\ Room(g, 1) /\ Current(g).d
  /\ LogCommand(g, << [kind |-> "remove"] >>)
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  waiter, flush, used, pops, failovers, bumps, ghosts >>

Block(g) ==      \* BRPOP on an empty queue
  /\ UseWaiter /\ waiter = "none" /\ pops < MaxPops
  /\ \/ CanServe(g)
     \/ Mutant = "ImportWakes" /\ MoveTo(view[g], g)
  /\ Current(g).q = << >>
  /\ waiter' = g /\ pops' = pops + 1
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, tail, session, streams,
                  confirmed, flush, used, failovers, bumps, ghosts >>

\* The primary's own writes (expiry, leases, schedules) obey the same rule as clients'.
Fire(g) ==
  /\ \/ CanServe(g)
     \/ Mutant = "FireFrozen" /\ view[g].owner = g
  /\ Room(g, IF waiter = g THEN 2 ELSE 1) /\ Current(g).d
  /\ LogPush(g, [kind |-> "fire"])
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  flush, used, pops, failovers, bumps, ghosts >>

FireHidden(g) ==
  /\ Mutant = "FireHidden" /\ MoveTo(view[g], g)
  /\ Room(g, 1) /\ Current(g).d
  /\ Log(g, << [kind |-> "hiddenFire"] >>)
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  waiter, flush, used, pops, failovers, bumps, ghosts >>

\* FLUSHALL over the cluster is sent as "flush this slot" to whoever owns it, like any
\* other command.  The mutant sends "flush what you own" to each group once.
FlushBegin ==
  /\ flush.state = "ready"
  /\ flush' = [state |-> "running",
               todo |-> IF Mutant = "FlushEachGroup" THEN Groups ELSE {"slot"},
               must |-> Range(truth.q)]
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, tail, session, streams,
                  confirmed, waiter, used, pops, failovers, bumps, ghosts >>

FlushPart(g) ==
  /\ flush.state = "running"
  /\ \/ /\ "slot" \in flush.todo /\ CanServe(g) /\ Room(g, 1)
        /\ LogCommand(g, << [kind |-> "flush"] >>)
        /\ flush' = [flush EXCEPT !.state = "sent", !.todo = {}]
     \/ /\ g \in flush.todo /\ CanServe(g) /\ Room(g, 1)
        /\ LogCommand(g, << [kind |-> "flush"] >>)
        /\ flush' = [flush EXCEPT !.todo = @ \ {g}]
     \/ /\ g \in flush.todo /\ view[g].owner # g      \* nothing to flush here
        /\ \A h \in Groups : \A i \in 1..Len(tail[h]) : tail[h][i].kind # "flush"
        /\ flush' = [flush EXCEPT !.todo = @ \ {g},
                                  !.state = IF flush.todo = {g} THEN "done" ELSE @]
        /\ UNCHANGED << tail, streams >>
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  waiter, used, pops, failovers, bumps, ghosts >>

\* All members of in_sync have the oldest operation: it is acknowledged.  Only now does
\* it enter the stream to the target: what is not acknowledged may still vanish.
Acknowledge(g) ==
  /\ tail[g] # << >>
  /\ LET op == Head(tail[g])
         client == op.kind \in ClientKinds
         head == IF base[g].q = << >> THEN {} ELSE {Head(base[g].q)}
     IN
     /\ base' = [base EXCEPT ![g] = Apply(@, op)]
     /\ tail' = [tail EXCEPT ![g] = Tail(@)]
     /\ IF client
        THEN /\ truth' = [q |-> Change(truth, op).q, d |-> Change(truth, op).d]
             /\ foreignAck' = (foreignAck \/ doc.owner # g)
             /\ acked' = acked \cup (IF op.kind = "push" THEN {op.e} ELSE {})
             /\ delivered' = IF op.kind = "pop" THEN delivered \cup head ELSE delivered
             /\ again' = (again \/ (op.kind = "pop" /\ head \cap delivered # {}))
             /\ flushed' = flushed \cup (IF op.kind = "flush" THEN Range(base[g].q) ELSE {})
             /\ flush' = IF op.kind = "flush" /\ flush.todo = {}
                         THEN [flush EXCEPT !.state = "done"] ELSE flush
             /\ streams' = IF session[g] # 0 /\ Mutant # "StreamUnacked"
                           THEN [streams EXCEPT ![session[g]].ops = Append(@, op)]
                           ELSE streams
        ELSE UNCHANGED << ghosts, flush, streams >>
  /\ UNCHANGED << doc, view, frozen, waiting, requests, session, confirmed, waiter,
                  used, pops, failovers, bumps >>

(* ----------------------------- document ------------------------------- *)

\* Every change of the document is a compare-and-swap on its revision, so each change
\* makes all requests that were built on an older revision fail.
NoRevisionCheck == Mutant \in {"CommitChecksNoSourceTerm", "CommitChecksNoTargetTerm"}
SetDoc(d) ==
  /\ doc' = [d EXCEPT !.rev = doc.rev + 1]
  /\ requests' = IF NoRevisionCheck THEN requests ELSE {}

BeginMove ==
  /\ ~Active(doc) /\ doc.move.id < MaxMoves
  /\ SetDoc([doc EXCEPT !.move = [id |-> doc.move.id + 1, from |-> doc.owner,
                                  to |-> Other(doc.owner), state |-> "copying"]])
  /\ UNCHANGED << view, frozen, waiting, base, tail, session, streams, confirmed, waiter,
                  flush, used, pops, failovers, bumps, ghosts >>

Cancel ==       \* by a person or by either side
  /\ Active(doc)
  /\ SetDoc([doc EXCEPT !.move.state = "cancelled"])
  /\ UNCHANGED << view, frozen, waiting, base, tail, session, streams, confirmed, waiter,
                  flush, used, pops, failovers, bumps, ghosts >>

Unrelated ==    \* somebody changes something else in the document
  /\ bumps < MaxBumps
  /\ bumps' = bumps + 1
  /\ SetDoc(doc)
  /\ UNCHANGED << view, frozen, waiting, base, tail, session, streams, confirmed, waiter,
                  flush, used, pops, failovers, ghosts >>

\* The primary of g sees a newer document.  If it was waiting for the outcome of a commit,
\* a newer revision settles it: the request either made that revision or can never succeed.
Learn(g) ==
  /\ doc.rev > view[g].rev
  /\ view' = [view EXCEPT ![g] = doc]
  /\ waiting' = [waiting EXCEPT ![g] = FALSE]
  /\ frozen' = [frozen EXCEPT ![g] = @ /\ MoveFrom(doc, g)]
  /\ session' = [session EXCEPT ![g] =
        IF @ # 0 /\ MoveFrom(doc, g) /\ streams[@].move = doc.move.id THEN @ ELSE 0]
  /\ waiter' = IF waiter = g /\ doc.owner # g /\ Mutant # "WaiterForgotten"
               THEN "none" ELSE waiter          \* MOVED, or set up again at the owner
  /\ UNCHANGED << doc, requests, base, tail, streams, confirmed, flush, used, pops,
                  failovers, bumps, ghosts >>

(* ------------------------------- source ------------------------------- *)

\* A cut of what is acknowledged, and from then on every acknowledged change.
OpenSession(g) ==
  /\ view[g].owner = g /\ MoveFrom(view[g], g) /\ ~frozen[g]
  /\ Len(streams) < MaxSessions
  /\ LET st == IF Mutant = "StreamUnacked" THEN Current(g) ELSE base[g]
     IN streams' = Append(streams, [move |-> view[g].move.id, from |-> g,
                                    q |-> st.q, d |-> st.d, ops |-> << >>,
                                    terms |-> view[g].term])
  /\ session' = [session EXCEPT ![g] = Len(streams) + 1]
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, tail, confirmed, waiter,
                  flush, used, pops, failovers, bumps, ghosts >>

Freeze(g) ==
  /\ view[g].owner = g /\ MoveFrom(view[g], g) /\ session[g] # 0 /\ ~frozen[g]
  /\ Mutant # "NoFreeze"
  /\ frozen' = [frozen EXCEPT ![g] = TRUE]
  /\ UNCHANGED << doc, view, waiting, requests, base, tail, session, streams, confirmed,
                  waiter, flush, used, pops, failovers, bumps, ghosts >>

\* The source gives up for now: only while no commit request is out.
Unfreeze(g) ==
  /\ frozen[g]
  /\ ~waiting[g] \/ Mutant = "UnfreezeOnTimeout"
  /\ frozen' = [frozen EXCEPT ![g] = FALSE]
  /\ UNCHANGED << doc, view, waiting, requests, base, tail, session, streams, confirmed,
                  waiter, flush, used, pops, failovers, bumps, ghosts >>

\* The request is built on the document that the source has seen.  The target must have
\* confirmed, in the term that this document names, everything up to the end.
SendCommit(g) ==
  /\ frozen[g] \/ Mutant = "NoFreeze"
  /\ MoveFrom(view[g], g) /\ session[g] # 0 /\ ~waiting[g]
  /\ tail[g] = << >> \/ Mutant = "CommitBeforeDrain"
  /\ LET n == session[g] IN
     /\ confirmed[g].n = n
     /\ confirmed[g].pos = Len(streams[n].ops)
     /\ \/ confirmed[g].term = view[g].term[Other(g)]
        \/ Mutant = "StaleConfirmation"
  /\ requests' = requests \cup {[rev |-> view[g].rev, id |-> view[g].move.id, from |-> g,
                                 term |-> view[g].term]}
  /\ waiting' = [waiting EXCEPT ![g] = TRUE]
  /\ UNCHANGED << doc, view, frozen, base, tail, session, streams, confirmed, waiter,
                  flush, used, pops, failovers, bumps, ghosts >>

\* etcd processes a request, at any time after it was sent.  The reply may be lost, so the
\* source always learns the outcome by Learn.
Commit(m) ==
  /\ m \in requests
  /\ IF ~NoRevisionCheck THEN doc.rev = m.rev
     ELSE /\ Active(doc) /\ doc.move.id = m.id
          /\ Mutant # "CommitChecksNoSourceTerm" => doc.term[m.from] = m.term[m.from]
          /\ Mutant # "CommitChecksNoTargetTerm" => doc.term[Other(m.from)] = m.term[Other(m.from)]
  /\ doc' = [doc EXCEPT !.rev = @ + 1, !.owner = Other(m.from), !.move.state = "committed"]
  /\ requests' = IF NoRevisionCheck THEN requests \ {m} ELSE {}
  /\ UNCHANGED << view, frozen, waiting, base, tail, session, streams, confirmed, waiter,
                  flush, used, pops, failovers, bumps, ghosts >>

\* The request may be lost on its way to etcd; then the revision stays as it was and a read
\* proves nothing.  The source writes the document itself, so the old request cannot succeed.
Fence(g) ==
  /\ waiting[g] /\ doc.rev = view[g].rev
  /\ bumps < MaxBumps      \* only to keep the model finite
  /\ bumps' = bumps + 1
  /\ SetDoc(doc)
  /\ UNCHANGED << view, frozen, waiting, base, tail, session, streams, confirmed, waiter,
                  flush, used, pops, failovers, ghosts >>

\* Mutant: a read that shows the old revision is taken for "the commit failed".
ReadSameRevision(g) ==
  /\ Mutant = "ReadSameRevision" /\ waiting[g] /\ doc.rev = view[g].rev
  /\ waiting' = [waiting EXCEPT ![g] = FALSE]
  /\ UNCHANGED << doc, view, frozen, requests, base, tail, session, streams, confirmed,
                  waiter, flush, used, pops, failovers, bumps, ghosts >>

(* ------------------------------- target ------------------------------- *)

\* The target takes part only when its own view shows this move.  A view that has seen the
\* move protects the copy from Purge below.
SeesMove(g, n) ==
  \/ view[g].owner # g /\ MoveTo(view[g], g) /\ streams[n].move = view[g].move.id
  \/ Mutant = "AcceptBlind" /\ view[g].owner # g

\* Sessions are ordered by (move, term of the source, try).  A newer one replaces an older.
ImportBegin(g, n) ==
  /\ n \in 1..Len(streams) /\ streams[n].from = Other(g)
  /\ SeesMove(g, n) /\ Room(g, 1)
  /\ \/ n > Current(g).import.n
     \/ Mutant = "OldSession" /\ n # Current(g).import.n
  /\ Log(g, << [kind |-> "import", n |-> n, q |-> streams[n].q, d |-> streams[n].d] >>)
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  waiter, flush, used, pops, failovers, bumps, ghosts >>

\* Changes are applied by position, so a new primary of the target goes on where its own
\* log ends.  They wake nobody: the slot is hidden.
ImportChange(g) ==
  LET imp == Current(g).import IN
  /\ imp.n # 0 /\ SeesMove(g, imp.n) /\ Room(g, 2)
  /\ imp.pos < Len(streams[imp.n].ops)
  /\ LET op == streams[imp.n].ops[imp.pos + 1]
         change == [kind |-> "change", op |-> op]
     IN IF Mutant = "ImportWakes" /\ waiter = g /\ op.kind = "push"
        THEN Log(g, << change, [kind |-> "wake"] >>) /\ waiter' = "none"
        ELSE Log(g, << change >>) /\ UNCHANGED waiter
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  flush, used, pops, failovers, bumps, ghosts >>

\* The target reports how far its whole group is, with its term.  The source may read the
\* report much later.
Confirm(g) ==
  LET st == IF Mutant = "ConfirmBeforeReplicated" THEN Current(g) ELSE base[g]
      src == Other(g)
      c == [n |-> st.import.n, pos |-> st.import.pos, term |-> doc.term[g]]
  IN
  /\ st.import.n # 0 /\ session[src] = st.import.n /\ confirmed[src] # c
  /\ confirmed' = [confirmed EXCEPT ![src] = c]
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, tail, session, streams,
                  waiter, flush, used, pops, failovers, bumps, ghosts >>

\* Keys of a slot that the document gives to others are deleted, by ordinary records of the
\* group's log, and only if no move to this group is under way in the primary's view.
Purge(g) ==
  /\ Room(g, 1)
  /\ LET st == Current(g) IN st.q # << >> \/ st.d \/ st.import.n # 0
  /\ \/ view[g].owner # g /\ ~MoveTo(view[g], g)
     \/ Mutant = "PurgeDuringImport" /\ view[g].owner # g
     \/ Mutant = "DeleteBeforeCommit" /\ view[g].owner = g /\ waiting[g]
  /\ Log(g, << [kind |-> "purge"] >>)
  /\ UNCHANGED << doc, view, frozen, waiting, requests, base, session, confirmed,
                  waiter, flush, used, pops, failovers, bumps, ghosts >>

(* ------------------------------ failures ------------------------------ *)

\* The new primary made its term by a compare-and-swap, so it knows this very document.
\* It goes on with its predecessor's session (its log has the same positions), or opens a
\* new one.
NewTerm(g) ==
  /\ failovers < MaxFailovers
  /\ failovers' = failovers + 1
  /\ SetDoc([doc EXCEPT !.term[g] = @ + 1])
  /\ view' = IF Mutant = "TakeoverKeepsOldView" THEN view ELSE [view EXCEPT ![g] = doc']
  /\ frozen' = [frozen EXCEPT ![g] = FALSE]
  /\ waiting' = [waiting EXCEPT ![g] = FALSE]
  /\ session' \in { session, [session EXCEPT ![g] = 0] }
  /\ session'[g] # 0 => MoveFrom(doc, g) /\ streams[session[g]].move = doc.move.id
  /\ confirmed' = [confirmed EXCEPT ![g] = [n |-> 0, pos |-> 0, term |-> 0]]
  /\ waiter' = IF waiter = g THEN "none" ELSE waiter     \* its connection is gone
  /\ UNCHANGED << streams, flush, used, pops, bumps, ghosts >>

Failover(g) ==
  /\ NewTerm(g)
  /\ \E n \in 0..Len(tail[g]) : tail' = [tail EXCEPT ![g] = SubSeq(@, 1, n)]
  /\ IF Mutant = "ReplicaPurgesAtLoad" /\ base[g].import.n # 0
     THEN \* this replica restarted during the import and deleted "foreign" keys by itself
          base' = [base EXCEPT ![g].q = << >>, ![g].d = FALSE]
     ELSE UNCHANGED base

\* All members restart from their journals, or the only one does.  Keys of slots that the
\* document gives to others are deleted at load: by the document of the new term, which the
\* node wrote itself.  (With the slot still owned, a restart is a failover.)
Reload(g) ==
  /\ (IF Mutant = "LoadByOldView" THEN view[g] ELSE doc).owner # g
  /\ NewTerm(g)
  /\ base' = [base EXCEPT ![g] = Empty]
  /\ tail' = [tail EXCEPT ![g] = << >>]

Next ==
  \/ \E g \in Groups : \/ \E e \in Elems : Push(g, e)
                       \/ Pop(g) \/ Remove(g) \/ Block(g) \/ Fire(g) \/ FireHidden(g)
                       \/ FlushPart(g) \/ Acknowledge(g)
                       \/ Learn(g) \/ OpenSession(g) \/ Freeze(g) \/ Unfreeze(g)
                       \/ SendCommit(g) \/ Fence(g) \/ ReadSameRevision(g)
                       \/ \E n \in 1..MaxSessions : ImportBegin(g, n)
                       \/ ImportChange(g) \/ Confirm(g) \/ Purge(g)
                       \/ Failover(g) \/ Reload(g)
  \/ FlushBegin \/ BeginMove \/ Cancel \/ Unrelated
  \/ \E m \in requests : Commit(m)

Spec == Init /\ [][Next]_vars

(* ----------------------------- invariants ----------------------------- *)

Owned == base[doc.owner]     \* what the owner of the slot has, replicated

\* Whoever would answer a client about the slot owns it in the document, at this moment.
\* So there is no stale read, and no write by a group that does not own the slot.
OneServer == \A g \in Groups : CanServe(g) => doc.owner = g

\* No acknowledgement by a group that does not own the slot.
AckByOwner == ~foreignAck

\* Nothing of the slot is deleted, or about to be deleted, while the document gives it to g.
NoEarlyDelete == \A i \in 1..Len(tail[doc.owner]) : tail[doc.owner][i].kind # "purge"

\* No acknowledged job is lost.
NoLoss == \A e \in acked : e \in delivered \cup flushed \cup Range(Owned.q)

\* No job is delivered twice, or is delivered and still there.
NoDuplicate == /\ ~again
               /\ \A e \in Elems \cup {"d"} : Count(e, Owned.q) <= (IF e \in delivered THEN 0 ELSE 1)

\* The owner holds exactly what one linearizable server would hold: nothing lost, nothing
\* doubled or risen from the dead, nothing out of order.  It holds across the instant of the
\* commit, so the move is wholly committed or wholly undone.
Truth == Owned.q = truth.q /\ Owned.d = truth.d

\* After a FLUSHALL is acknowledged, no job is left that was there when it began.
FlushComplete == flush.state = "done" => Range(truth.q) \cap flush.must = {}

\* Nobody waits at a group that knows that it does not own the slot.
NoForgottenWaiter == waiter # "none" => view[waiter].owner = waiter \/ Mutant = "ImportWakes"

(* --------- reachability: each of these is expected to be violated ------ *)

ReachCommit == ~(doc.move.state = "committed" /\ Len(truth.q) = 1)
ReachThereAndBack == ~(doc.owner = "g1" /\ doc.move.id = 2 /\ doc.move.state = "committed" /\ truth.q # << >>)
\* One session survives a failover of its source and one of its target, and ends in a commit request.
ReachResumed == ~(\E g \in Groups : /\ waiting[g] /\ session[g] # 0
                    /\ streams[session[g]].terms["g1"] < view[g].term["g1"]
                    /\ streams[session[g]].terms["g2"] < view[g].term["g2"])
\* A commit succeeds that the source, replaced meanwhile, never hears of.
ReachCommitThenFailover == ~(doc.owner = "g2" /\ doc.term["g1"] = 2 /\ view["g1"].owner = "g2" /\ truth.q # << >> /\ base["g1"].q # << >>)
ReachWaiterAtTarget == ~(doc.owner = "g2" /\ waiter = "g2")
=============================================================================
