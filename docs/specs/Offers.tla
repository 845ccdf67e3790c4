------------------------------- MODULE Offers -------------------------------
(***************************************************************************)
(* BRPOP q1 .. qn when the queues belong to different groups.              *)
(*                                                                         *)
(* Each queue stands for its own group: a replicated state machine with a  *)
(* primary.  "mem" is what the primary has executed, "rep" what all of     *)
(* in_sync have acknowledged; at most one command is between the two       *)
(* (dirty), and its messages leave only when it is acknowledged (outbox).  *)
(* A failover keeps rep and may keep or drop the command in between; its   *)
(* messages are never sent, waiters are forgotten, connections break.      *)
(* A slot move looks the same from here, except that nothing is dropped.   *)
(*                                                                         *)
(* Each client hangs on one node, its coordinator.  A ticket is one BRPOP  *)
(* of one client: (c, n), n counts the client's calls.                     *)
(*                                                                         *)
(*   wait t     coordinator -> group  leave a waiter                       *)
(*   offer t    group -> coordinator  there is an element for you          *)
(*   take t     coordinator -> group  accept the offer; also the direct    *)
(*                                    pop of phase 1                       *)
(*   final t e  group -> coordinator  popped and replicated                *)
(*   gone t     group -> coordinator  nothing here any more                *)
(*   refuse t   coordinator -> group  no, thank you; leaves the line too   *)
(*   close t    coordinator -> group  the ticket is answered; forget it    *)
(*   release t  coordinator -> group  put the final element back: no       *)
(*                                    client can have seen it              *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
  Clients, Queues,
  Pushes,        \* how many elements are pushed to each queue
  MaxCalls, MaxFailovers, MaxMoves, MaxBreaks, MaxCrashes, MaxDeletes, MaxLeases,
  ClientsLeave,  \* may clients disconnect, time out, or be unblocked?
  Variant,       \* "replicated": an offer sets the element aside by a replicated command
                 \* "memory":     only the primary remembers that it is set aside
                 \* "notify":     nothing is set aside, the offer is only a hint
  Mutant

VARIABLES
  mem, rep, dirty, outbox, waiters,          \* groups
  toQ, toC, late,                            \* messages; connections keep order
  st, tk, from, conn, here,                  \* coordinators
  pushed, leases, failovers, moves, breaks, crashes, deletes,  \* bounds
  got, doubt, deleted, twice, crashedIn      \* ghosts

groups == << mem, rep, dirty, outbox, waiters >>
coords == << st, tk, from, conn, here >>
bounds == << pushed, leases, failovers, moves, breaks, crashes, deletes >>
ghosts == << got, doubt, deleted, twice, crashedIn >>
vars == << groups, toQ, toC, late, coords, bounds, ghosts >>

Range(s) == { s[i] : i \in 1..Len(s) }
Without(s, x) == SelectSeq(s, LAMBDA y : y # x)
Sorted(s) == \A i, j \in 1..Len(s) : i < j => s[i] < s[j]

Ticket(c) == [c |-> c, n |-> tk[c]]
Msg(m, t, e) == [m |-> m, t |-> t, e |-> e]

(* -------------------- the queue and its set-aside part ----------------- *)

\* Elements are numbered in the order in which they were pushed; pops take the first.
\* A returned element goes before all later ones, not simply to the end.
PutIn(q, e) ==
  CASE Mutant = "ReturnAtEnd"  -> << e >> \o q
    [] Mutant = "ReturnAtFarEnd" -> Append(q, e)
    [] OTHER -> SelectSeq(q, LAMBDA x : x < e) \o << e >> \o SelectSeq(q, LAMBDA x : x > e)

RECURSIVE PutAll(_, _)
PutAll(q, es) == IF es = {} THEN q
                 ELSE LET e == CHOOSE x \in es : \A y \in es : x >= y IN PutAll(PutIn(q, e), es \ {e})

\* End the offers in the set os.
Return(s, os) ==
  [s EXCEPT !.off = @ \ os,
            !.q = IF Variant = "notify" THEN @ ELSE PutAll(@, { o.e : o \in os })]

\* The part of the state that replicas and journal have.
Replicated(s) == IF Variant = "replicated" THEN s ELSE Return(s, s.off)

\* A request with a ticket closes all earlier tickets of the same client: their offers go
\* back, their final elements were delivered and are forgotten.
CloseOlder(s, t) ==
  IF Mutant = "OldTicketsStay" THEN s
  ELSE LET older(x) == x.t.c = t.c /\ x.t.n < t.n
           s1 == Return(s, { o \in s.off : older(o) })
       IN [s1 EXCEPT !.fin = { f \in @ : ~older(f) }]

OpenWaiters(ws, t) == SelectSeq(ws, LAMBDA x : ~(x.c = t.c /\ (x.n < t.n \/ x = t)))

Empty == [q |-> << >>, off |-> {}, fin |-> {}]

Init ==
  /\ mem = [k \in Queues |-> Empty] /\ rep = [k \in Queues |-> Empty]
  /\ dirty = [k \in Queues |-> FALSE] /\ outbox = [k \in Queues |-> << >>]
  /\ waiters = [k \in Queues |-> << >>]
  /\ toQ = [c \in Clients |-> [k \in Queues |-> << >>]]
  /\ toC = [c \in Clients |-> [k \in Queues |-> << >>]]
  /\ late = {}
  /\ st = [c \in Clients |-> "idle"] /\ tk = [c \in Clients |-> 0]
  /\ from = [c \in Clients |-> CHOOSE k \in Queues : TRUE]
  /\ conn = [c \in Clients |-> [k \in Queues |-> TRUE]]
  /\ here = [c \in Clients |-> TRUE]
  /\ pushed = [k \in Queues |-> 0] /\ leases = 0 /\ failovers = 0 /\ moves = 0 /\ breaks = 0
  /\ crashes = 0 /\ deletes = 0
  /\ got = [c \in Clients |-> << >>]
  /\ doubt = {} /\ deleted = {} /\ twice = FALSE
  /\ crashedIn = [c \in Clients |-> "alive"]

(* ------------------------------- groups -------------------------------- *)

\* The primary of k executes something: if it changes what is replicated, its messages are
\* held until the acknowledgement; otherwise they leave at once.
Execute(k, s, ws, c, msgs, readQ) ==
  /\ ~dirty[k]
  /\ mem' = [mem EXCEPT ![k] = s]
  /\ waiters' = [waiters EXCEPT ![k] = ws]
  /\ IF Replicated(s) = rep[k]
     THEN /\ UNCHANGED << dirty, outbox >>
          /\ toC' = IF conn[c][k] THEN [toC EXCEPT ![c][k] = @ \o msgs] ELSE toC
     ELSE /\ dirty' = [dirty EXCEPT ![k] = TRUE]
          /\ IF Mutant = "AnswerBeforeReplicated" /\ conn[c][k]
             THEN toC' = [toC EXCEPT ![c][k] = @ \o msgs] /\ UNCHANGED outbox
             ELSE outbox' = [outbox EXCEPT ![k] = msgs] /\ UNCHANGED toC
  /\ toQ' = IF readQ THEN [toQ EXCEPT ![c][k] = Tail(@)] ELSE toQ
  /\ UNCHANGED rep

Acknowledge(k) ==
  /\ dirty[k]
  /\ rep' = [rep EXCEPT ![k] = Replicated(mem[k])]
  /\ dirty' = [dirty EXCEPT ![k] = FALSE]
  /\ outbox' = [outbox EXCEPT ![k] = << >>]
  /\ toC' = IF outbox[k] = << >> THEN toC
            ELSE LET c == outbox[k][1].t.c IN
                 IF conn[c][k] /\ st[c] # "dead" THEN [toC EXCEPT ![c][k] = @ \o outbox[k]] ELSE toC
  /\ UNCHANGED << mem, waiters, toQ, late, coords, bounds, ghosts >>

Push(k) ==
  /\ ~dirty[k] /\ pushed[k] < Pushes[k]
  /\ pushed' = [pushed EXCEPT ![k] = @ + 1]
  /\ mem' = [mem EXCEPT ![k].q = Append(@, pushed[k] + 1)]
  /\ rep' = [rep EXCEPT ![k].q = Append(@, pushed[k] + 1)]
  /\ UNCHANGED << dirty, outbox, waiters, toQ, toC, late, coords, leases, failovers, moves, breaks,
                  crashes, deletes, ghosts >>

Delete(k) ==    \* DEL q: offers die with the list
  /\ ~dirty[k] /\ deletes < MaxDeletes
  /\ mem[k].q # << >> \/ mem[k].off # {}
  /\ deletes' = deletes + 1
  /\ deleted' = deleted \cup { <<k, e>> : e \in Range(mem[k].q) \cup { o.e : o \in mem[k].off } }
  /\ mem' = [mem EXCEPT ![k].q = << >>, ![k].off = IF Mutant = "DeleteKeepsOffers" THEN @ ELSE {}]
  /\ rep' = [rep EXCEPT ![k] = Replicated(mem'[k])]
  /\ UNCHANGED << dirty, outbox, waiters, toQ, toC, late, coords, pushed, leases, failovers, moves,
                  breaks, crashes, got, doubt, twice, crashedIn >>

CanOffer(k) ==
  /\ ~dirty[k] /\ waiters[k] # << >>
  /\ IF Variant = "notify" THEN Cardinality(mem[k].off) < Len(mem[k].q) ELSE mem[k].q # << >>

Offer(k) ==
  /\ CanOffer(k)
  /\ LET t == Head(waiters[k])
         e == Head(mem[k].q)
         s == IF Variant = "notify" THEN [mem[k] EXCEPT !.off = @ \cup {[t |-> t, e |-> 0]}]
              ELSE [mem[k] EXCEPT !.off = @ \cup {[t |-> t, e |-> e]}, !.q = Tail(@)]
     IN Execute(k, s, Tail(waiters[k]), t.c, << Msg("offer", t, 0) >>, FALSE)
  /\ UNCHANGED << late, coords, bounds, ghosts >>

\* The pop of ticket t.  It is written down under the ticket, so that the same question after
\* a failover or a lost connection has the same answer and does not pop again.
TakeResult(k, t) ==
  LET s0 == CloseOlder(mem[k], t)
      mine == { o \in s0.off : o.t = t }
      done == { f \in s0.fin : f.t = t }
      s1 == [s0 EXCEPT !.off = @ \ mine]
      record(s, e) == [s EXCEPT !.fin = @ \cup {[t |-> t, e |-> e]}]
  IN IF done # {} /\ Mutant # "NotIdempotent"
     THEN [s |-> s0, msg |-> Msg("final", t, (CHOOSE f \in done : TRUE).e)]
     ELSE IF mine # {} /\ Variant # "notify"
     THEN LET e == (CHOOSE o \in mine : TRUE).e IN [s |-> record(s1, e), msg |-> Msg("final", t, e)]
     ELSE IF s1.q # << >>
     THEN [s |-> record([s1 EXCEPT !.q = Tail(@)], Head(s1.q)), msg |-> Msg("final", t, Head(s1.q))]
     ELSE [s |-> s1, msg |-> Msg("gone", t, 0)]

Receive(k, c) ==
  /\ toQ[c][k] # << >>
  /\ LET m == Head(toQ[c][k])
         t == m.t
         ws == OpenWaiters(waiters[k], t)
         s0 == CloseOlder(mem[k], t)
     IN CASE m.m = "take" -> LET r == TakeResult(k, t) IN Execute(k, r.s, ws, c, << r.msg >>, TRUE)
          [] m.m = "wait" ->
               \* A ticket that is being offered something is not in line as well.  The offer is
               \* repeated: its first message may have died with a primary or a connection, and
               \* when its lease ends nobody would remember that the client waits.
               IF \E o \in s0.off : o.t = t
               THEN Execute(k, s0, ws, c, IF Mutant = "OfferNotRepeated" THEN << >>
                                          ELSE << Msg("offer", t, 0) >>, TRUE)
               ELSE Execute(k, s0, Append(ws, t), c, << >>, TRUE)
          [] m.m = "refuse" ->
               \* An offer may come twice, so a refusal must never touch a final element.
               LET s1 == Return(s0, { o \in s0.off : o.t = t })
               IN Execute(k, [s1 EXCEPT !.fin = IF Mutant = "RefuseCloses"
                                                THEN { f \in @ : f.t # t } ELSE @], ws, c, << >>, TRUE)
          [] m.m = "close" ->
               LET s1 == Return(s0, { o \in s0.off : o.t = t })
               IN Execute(k, [s1 EXCEPT !.fin = { f \in @ : f.t # t }], ws, c, << >>, TRUE)
          [] m.m = "release" ->
               LET fs == { f \in s0.fin : f.t = t }
               IN Execute(k, [s0 EXCEPT !.fin = @ \ fs, !.q = PutAll(@, { f.e : f \in fs })],
                          ws, c, << Msg("released", t, 0) >>, TRUE)
  /\ UNCHANGED << late, coords, bounds, ghosts >>

\* The lease of an offer ends (the coordinator is slow or dead).
LeaseEnds(k) ==
  /\ \E o \in mem[k].off :
       /\ \/ leases < MaxLeases /\ leases' = leases + 1
          \/ (st[o.t.c] # "wait" \/ tk[o.t.c] # o.t.n) /\ UNCHANGED leases
       /\ Execute(k, Return(mem[k], {o}), waiters[k], o.t.c, << >>, FALSE)
  /\ UNCHANGED << late, coords, pushed, failovers, moves, breaks, crashes, deletes, ghosts >>

\* Mutant: the lease goes on after the element was made final.
FinalLeaseEnds(k) ==
  /\ Mutant = "LeaseOnFinal"
  /\ \E f \in mem[k].fin :
       Execute(k, [mem[k] EXCEPT !.fin = @ \ {f}, !.q = PutIn(@, f.e)], waiters[k], f.t.c, << >>, FALSE)
  /\ UNCHANGED << late, coords, bounds, ghosts >>

\* It is proven that the coordinator is dead.  Offers go back.  A final element may have
\* reached the client, so it is given up: at most once.
CoordinatorDead(k, c) ==
  /\ \/ st[c] = "dead"
     \/ Mutant = "DeathPresumed" /\ ~conn[c][k]
  /\ toQ[c][k] = << >> /\ ~dirty[k]
  /\ LET offs == { o \in mem[k].off : o.t.c = c }
         fins == { f \in mem[k].fin : f.t.c = c }
         s1 == Return(mem[k], offs)
     IN
     /\ offs # {} \/ fins # {} \/ \E i \in 1..Len(waiters[k]) : waiters[k][i].c = c
     /\ Execute(k, IF Mutant = "FinalReturnedAtDeath"
                   THEN [s1 EXCEPT !.fin = @ \ fins, !.q = PutAll(@, { f.e : f \in fins })]
                   ELSE [s1 EXCEPT !.fin = @ \ fins],
                SelectSeq(waiters[k], LAMBDA x : x.c # c), c, << >>, FALSE)
     /\ doubt' = IF Mutant = "FinalReturnedAtDeath" THEN doubt
                 ELSE doubt \cup { [k |-> k, e |-> f.e, c |-> c] :
                        f \in { x \in fins : \A d \in Clients : <<k, x.e>> \notin Range(got[d]) } }
  /\ UNCHANGED << late, coords, bounds, got, deleted, twice, crashedIn >>

(* ----------------------------- coordinators ---------------------------- *)

\* Send the same message to every group in ks; a broken connection swallows it.
Tell(c, ks, m) == [toQ EXCEPT ![c] = [k \in Queues |->
                    IF k \in ks /\ conn[c][k] THEN Append(toQ[c][k], m) ELSE toQ[c][k]]]

Call(c) ==
  /\ st[c] = "idle" /\ here[c] /\ tk[c] < MaxCalls
  /\ tk' = [tk EXCEPT ![c] = @ + 1]
  /\ st' = [st EXCEPT ![c] = "ask"]
  /\ UNCHANGED << groups, toQ, toC, late, from, conn, here, bounds, ghosts >>

\* Phase 1: some group said that its queue is not empty (it may be wrong by now).
TakeFrom(c, k) ==
  /\ st[c] = "ask"
  /\ mem[k].q # << >>                     \* a hint only; keeps the model small
  /\ st' = [st EXCEPT ![c] = "taking"] /\ from' = [from EXCEPT ![c] = k]
  /\ toQ' = Tell(c, {k}, Msg("take", Ticket(c), 0))
  /\ UNCHANGED << groups, toC, late, tk, conn, here, bounds, ghosts >>

\* Phase 2: leave a waiter at each group.
Wait(c) ==
  /\ st[c] = "ask"
  /\ st' = [st EXCEPT ![c] = "wait"]
  /\ toQ' = Tell(c, Queues, Msg("wait", Ticket(c), 0))
  /\ UNCHANGED << groups, toC, late, tk, from, conn, here, bounds, ghosts >>

\* Timeout or CLIENT UNBLOCK.  From "take" on they no longer apply: the outcome must be known.
GiveUp(c) ==
  /\ ClientsLeave
  /\ st[c] \in {"ask", "wait"} \/ (Mutant = "GiveUpWhileTaking" /\ st[c] = "taking")
  /\ st' = [st EXCEPT ![c] = "idle"]
  /\ toQ' = Tell(c, Queues, Msg("close", Ticket(c), 0))
  /\ UNCHANGED << groups, toC, late, tk, from, conn, here, bounds, ghosts >>

ClientGone(c) ==
  /\ ClientsLeave /\ here[c] /\ st[c] \notin {"idle", "dead"}
  /\ here' = [here EXCEPT ![c] = FALSE]
  /\ IF st[c] \in {"ask", "wait"}
     THEN /\ st' = [st EXCEPT ![c] = "idle"]
          /\ toQ' = IF Mutant = "WaiterLeaks" THEN toQ ELSE Tell(c, Queues, Msg("close", Ticket(c), 0))
     ELSE UNCHANGED << st, toQ >>
  /\ UNCHANGED << groups, toC, late, tk, from, conn, bounds, ghosts >>

Deliver(c, k, e) ==
  /\ got' = [got EXCEPT ![c] = Append(@, <<k, e>>)]
  /\ twice' = (twice \/ \E d \in Clients : <<k, e>> \in Range(got[d]))
  /\ UNCHANGED << doubt, deleted, crashedIn >>

Read(c, k) ==
  /\ toC[c][k] # << >> /\ st[c] # "dead"
  /\ toC' = [toC EXCEPT ![c][k] = Tail(@)]
  /\ LET m == Head(toC[c][k])
         t == Ticket(c)
         mine == m.t = t
         asked == mine /\ st[c] = "taking" /\ (from[c] = k \/ Mutant = "AcceptTwo")
     IN
     CASE m.m = "offer" ->
            /\ IF mine /\ (st[c] \in {"ask", "wait"} \/ (Mutant = "AcceptTwo" /\ st[c] = "taking"))
               THEN /\ st' = [st EXCEPT ![c] = "taking"] /\ from' = [from EXCEPT ![c] = k]
                    /\ toQ' = Tell(c, {k}, Msg("take", t, 0))
               ELSE /\ IF Mutant = "OfferIgnored" THEN UNCHANGED toQ
                       ELSE toQ' = Tell(c, {k}, Msg("refuse", m.t, 0))
                    /\ UNCHANGED << st, from >>
            /\ UNCHANGED << tk, conn, here, ghosts >>
       [] m.m = "final" /\ asked /\ here[c] ->
            /\ st' = [st EXCEPT ![c] = "idle"]
            /\ toQ' = Tell(c, Queues, Msg("close", t, 0))
            /\ Deliver(c, k, m.e)
            /\ UNCHANGED << tk, from, conn, here >>
       [] m.m = "final" /\ asked /\ ~here[c] ->
            /\ st' = [st EXCEPT ![c] = "releasing"]
            /\ toQ' = [Tell(c, Queues \ {k}, Msg("close", t, 0)) EXCEPT ![c][k] =
                         IF conn[c][k] THEN Append(toQ[c][k], Msg("release", t, 0)) ELSE toQ[c][k]]
            /\ UNCHANGED << tk, from, conn, here, ghosts >>
       [] m.m = "gone" /\ asked ->
            /\ st' = [st EXCEPT ![c] = IF here[c] THEN "ask" ELSE "idle"]
            /\ toQ' = IF here[c] THEN toQ ELSE Tell(c, Queues, Msg("close", t, 0))
            /\ UNCHANGED << tk, from, conn, here, ghosts >>
       [] m.m = "released" ->
            /\ st' = [st EXCEPT ![c] = IF @ = "releasing" THEN "idle" ELSE @]
            /\ UNCHANGED << toQ, tk, from, conn, here, ghosts >>
       [] OTHER -> UNCHANGED << toQ, coords, ghosts >>
  /\ UNCHANGED << groups, late, bounds >>

\* A new connection voids whatever the old one still carries, and says again what the
\* coordinator wants now.
Reconnect(c, k) ==
  /\ ~conn[c][k] /\ st[c] # "dead"
  /\ conn' = [conn EXCEPT ![c][k] = TRUE]
  /\ toC' = [toC EXCEPT ![c][k] = << >>]
  /\ LET t == Ticket(c) IN
     toQ' = [toQ EXCEPT ![c][k] =
       CASE st[c] = "taking" /\ from[c] = k -> << Msg("take", t, 0) >>
         [] st[c] = "releasing" /\ from[c] = k -> << Msg("release", t, 0) >>
         [] st[c] = "wait" /\ Mutant # "NotRegisteredAgain" -> << Msg("wait", t, 0) >>
         [] st[c] = "idle" /\ tk[c] > 0 -> << Msg("close", t, 0) >>
         \* Nothing is wanted here now.  Say so: it also closes the older tickets, whose
         \* "close" may have died with the old connection.
         [] st[c] \notin {"idle", "wait"} /\ Mutant # "SilentReconnect" -> << Msg("refuse", t, 0) >>
         [] OTHER -> << >>]
  /\ UNCHANGED << groups, late, st, tk, from, here, bounds, ghosts >>

(* ------------------------------- failures ------------------------------ *)

BreakAll(k) ==
  /\ conn' = [c \in Clients |-> [conn[c] EXCEPT ![k] = FALSE]]
  /\ toQ' = [c \in Clients |-> [toQ[c] EXCEPT ![k] = << >>]]
  /\ late' = IF Mutant = "LateTake"
             THEN late \cup UNION { { [c |-> c, k |-> k, t |-> m.t] :
                                      m \in { x \in Range(toQ[c][k]) : x.m = "take" } } : c \in Clients }
             ELSE late

\* A dead primary's last messages to a coordinator may still arrive before it reconnects.
Failover(k) ==
  /\ failovers < MaxFailovers /\ failovers' = failovers + 1
  /\ \E s \in { rep[k], Replicated(mem[k]) } :
       /\ mem' = [mem EXCEPT ![k] = s] /\ rep' = [rep EXCEPT ![k] = s]
  /\ dirty' = [dirty EXCEPT ![k] = FALSE] /\ outbox' = [outbox EXCEPT ![k] = << >>]
  /\ waiters' = [waiters EXCEPT ![k] = << >>]
  /\ BreakAll(k)
  /\ UNCHANGED << toC, st, tk, from, here, pushed, leases, moves, breaks, crashes, deletes, ghosts >>

\* The slot moves: its keys and the records of offers and final pops go with it.
Move(k) ==
  /\ moves < MaxMoves /\ moves' = moves + 1 /\ ~dirty[k]
  /\ LET s == IF Mutant = "MoveLeavesRecords" THEN [rep[k] EXCEPT !.off = {}, !.fin = {}] ELSE rep[k]
     IN mem' = [mem EXCEPT ![k] = s] /\ rep' = [rep EXCEPT ![k] = s]
  /\ waiters' = [waiters EXCEPT ![k] = << >>]
  /\ BreakAll(k)
  /\ UNCHANGED << dirty, outbox, toC, st, tk, from, here, pushed, leases, failovers, breaks, crashes,
                  deletes, ghosts >>

\* One connection breaks.  Its waiters go; final records stay, since the coordinator may ask again.
Break(c, k) ==
  /\ breaks < MaxBreaks /\ breaks' = breaks + 1 /\ conn[c][k] /\ st[c] # "dead"
  /\ conn' = [conn EXCEPT ![c][k] = FALSE]
  /\ toQ' = [toQ EXCEPT ![c][k] = << >>]
  /\ waiters' = [waiters EXCEPT ![k] = SelectSeq(@, LAMBDA x : x.c # c)]
  /\ late' = IF Mutant = "LateTake"
             THEN late \cup { [c |-> c, k |-> k, t |-> m.t] : m \in { x \in Range(toQ[c][k]) : x.m = "take" } }
             ELSE late
  /\ UNCHANGED << mem, rep, dirty, outbox, toC, st, tk, from, here, pushed, leases, failovers, moves,
                  crashes, deletes, ghosts >>

\* Mutant: a take that an old connection (or a put-off queue) still held is executed.
LateTake(m) ==
  /\ m \in late /\ late' = late \ {m}
  /\ LET r == TakeResult(m.k, m.t) IN Execute(m.k, r.s, waiters[m.k], m.c, << >>, FALSE)
  /\ UNCHANGED << coords, bounds, ghosts >>

\* The coordinator's process dies.  What it sent may still be read by the groups.
Crash(c) ==
  /\ crashes < MaxCrashes /\ st[c] # "dead" /\ crashes' = crashes + 1
  /\ st' = [st EXCEPT ![c] = "dead"]
  /\ crashedIn' = [crashedIn EXCEPT ![c] = st[c]]
  /\ toC' = [toC EXCEPT ![c] = [k \in Queues |-> << >>]]
  /\ toQ' \in { toQ, [toQ EXCEPT ![c] = [k \in Queues |-> << >>]] }
  /\ UNCHANGED << groups, late, tk, from, conn, here, pushed, leases, failovers, moves, breaks,
                  deletes, got, doubt, deleted, twice >>

Next ==
  \/ \E k \in Queues : \/ Acknowledge(k) \/ Push(k) \/ Delete(k) \/ Offer(k) \/ LeaseEnds(k)
                       \/ FinalLeaseEnds(k) \/ Failover(k) \/ Move(k)
  \/ \E c \in Clients : \/ Call(c) \/ Wait(c) \/ GiveUp(c) \/ ClientGone(c) \/ Crash(c)
  \/ \E c \in Clients, k \in Queues : \/ TakeFrom(c, k) \/ Receive(k, c) \/ Read(c, k)
                                      \/ Reconnect(c, k) \/ Break(c, k) \/ CoordinatorDead(k, c)
  \/ \E m \in late : LateTake(m)

Spec == Init /\ [][Next]_vars

(* ------------------------------ invariants ----------------------------- *)

Delivered == UNION { Range(got[c]) : c \in Clients }
In(s) == Range(s.q) \cup (IF Variant = "notify" THEN {} ELSE { o.e : o \in s.off })
Final(s) == { f.e : f \in s.fin }
Doubtful(k) == { d.e : d \in { x \in doubt : x.k = k } }

\* An element reaches at most one client, once.
AtMostOnce == ~twice

\* What was delivered is nowhere in a queue or an offer, not even in what a failover falls back to.
DeliveredIsGone == \A k \in Queues : \A e \in In(mem[k]) \cup In(rep[k]) : <<k, e>> \notin Delivered

\* No element is in two places.
OnePlace == \A k \in Queues : /\ Range(mem[k].q) \cap Final(mem[k]) = {}
                              /\ Cardinality(Range(mem[k].q)) = Len(mem[k].q)

\* Every pushed element is in the queue, offered, final and kept for its ticket, delivered,
\* deleted by a client, or given up because its coordinator died.
NothingLost ==
  \A k \in Queues : \A e \in 1..pushed[k] :
     \A s \in { mem[k], rep[k] } :
        \/ e \in In(s) \cup Final(s) \/ <<k, e>> \in Delivered \cup deleted \/ e \in Doubtful(k)

\* The only way to lose an element: its client's own node died between the take and the answer.
LostOnlyWithCoordinator == \A d \in doubt : crashedIn[d.c] \in {"taking", "releasing"}

\* One BRPOP, one element.
OnePerTicket ==
  \A c \in Clients : \A n \in 1..tk[c] :
     Cardinality(UNION { { <<k, f.e>> : f \in { x \in mem[k].fin : x.t = [c |-> c, n |-> n] } } : k \in Queues }) <= 1

\* Returned elements stand before later ones.
QueueInOrder == \A k \in Queues : Sorted(mem[k].q)

\* A deleted element does not come back.
StaysDeleted == \A k \in Queues : \A e \in Range(mem[k].q) : <<k, e>> \notin deleted

\* For one consumer: elements of each queue arrive in order.
InOrder ==
  Cardinality(Clients) = 1 =>
  \A c \in Clients : \A i, j \in 1..Len(got[c]) :
     i < j /\ got[c][i][1] = got[c][j][1] => got[c][i][2] < got[c][j][2]

\* Nothing is under way: no message, no command, no lease, no reconnection is outstanding.
Quiet ==
  /\ \A k \in Queues : ~dirty[k] /\ ~CanOffer(k) /\ mem[k].off = {}
  /\ \A c \in Clients :
       /\ st[c] # "ask"
       /\ \A k \in Queues : toQ[c][k] = << >> /\ (st[c] # "dead" => toC[c][k] = << >> /\ conn[c][k])
       /\ st[c] = "dead" => \A k \in Queues : /\ \A f \in mem[k].fin : f.t.c # c
                                              /\ \A i \in 1..Len(waiters[k]) : waiters[k][i].c # c

\* When nothing is under way: every blocked client is in line at every queue (so the next push
\* finds it), nobody else is in line, no coordinator is stuck, no record is left over.
NothingLeaks ==
  Quiet =>
    /\ \A c \in Clients : /\ st[c] \in {"idle", "wait", "dead"}
                          /\ st[c] = "wait" => \A k \in Queues : Ticket(c) \in Range(waiters[k])
    /\ \A k \in Queues : /\ \A t \in Range(waiters[k]) : st[t.c] = "wait" /\ tk[t.c] = t.n
                         /\ mem[k].fin = {}

(* ----------- reachability: each is expected to be violated ------------- *)

ReachTwoOffers == ~(\E c \in Clients : \A k \in Queues : \E o \in mem[k].off : o.t.c = c)
ReachAllDelivered == ~(\A k \in Queues : \A e \in 1..Pushes[k] : <<k, e>> \in Delivered)
ReachDoubt == doubt = {}
ReachRetryAfterFailover ==
  ~(\E c \in Clients, k \in Queues : /\ failovers = 1 /\ toQ[c][k] # << >> /\ Head(toQ[c][k]).m = "take"
      /\ \E f \in rep[k].fin : f.t = Ticket(c))
ReachReleased == ~(\E c \in Clients : st[c] = "releasing")
ReachLeaseBeatsTake == ~(\E c \in Clients, k \in Queues : /\ leases = 1 /\ st[c] = "taking"
      /\ toC[c][k] # << >> /\ Head(toC[c][k]).m = "gone")
=============================================================================
