------------------------------- MODULE Group -------------------------------
(***************************************************************************)
(* Automatic failover of one Darter group: one primary, its replicas and   *)
(* a document in etcd that is changed only by compare-and-swap (CAS).      *)
(*                                                                         *)
(* "Rule N" refers to the rules in groups.md. Each is beside the action    *)
(* that implements it, and for each rule there is at least one mutant: a   *)
(* value of the constant Mutant that breaks it.  Mutant = "none" is the    *)
(* protocol.                                                               *)
(*                                                                         *)
(* How the real system is mapped to this model:                            *)
(*  - No clocks.  Time passes by events: ViewEnds (the primary takes a     *)
(*    grant for over) and PromiseEnds (the member does).  The one thing    *)
(*    the clocks must guarantee is the order: view first, promise second.  *)
(*  - Partitions, pauses, slow messages, etcd away: any action may simply  *)
(*    not happen for as long as TLC likes, so none of them needs an action.*)
(*  - A crash and the restart after it are one step: a node that is down   *)
(*    and a node that is up but idle look the same to everybody else.      *)
(*  - "a proof of death was read" is "that life is really over": when the  *)
(*    proof is read is left open, because a takeover may come any time     *)
(*    later.  What must hold is that a proof is never wrong.               *)
(*  - The data of a node is the sequence of writes it has applied.         *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Node,        \* the machines
  First,       \* the one that is primary at the beginning
  None,        \* "nothing"
  Ack,         \* "applied" or "durable": what an acknowledgement of a slice means
  Mutant,      \* "none", or the name of the rule that is broken
  Features,    \* which kinds of events may happen in this run (keeps runs small)
  InitInSync,  \* number of members of in_sync at the beginning
  MaxTerm, MaxRev, MaxWrites, MaxCrashes    \* bounds of the run

VARIABLES
  \* --- etcd
  docs,     \* all versions of the document; the last one is the current one
  flight,   \* CAS requests on their way: [base |-> revision compared, new |-> document]
  \* --- on each node's disk
  log,      \* what the node has applied: a sequence of [term, id]
  dur,      \* how many of these are durable
  whole,    \* FALSE: empty folder, or in the middle of a full copy (marked in the manifest)
  known,    \* the term of the last stream the node led or followed (in the manifest)
  \* --- in each node's memory
  life,     \* number of the node's present life (in reality a random number)
  seen,     \* revision of the document the node knows; may lag behind
  pending,  \* the node's CAS whose outcome it does not know, or None
  linked,   \* a replica: the stream of the term's primary continues my data
  promise,  \* a member: my grant to the primary of the term I know is not yet over
  acks,     \* a primary: acks[p][m] = last acknowledgement of m: [life, off, grant]
  \* --- network and clients
  net,      \* acknowledgements on their way (they carry the grants)
  read,     \* a read that ran and is not answered yet, or None
  \* --- history, only for stating what is right; no node looks at it
  truth,    \* longest sequence of writes that a released reply acknowledged or showed
  bad,      \* "" or what was wrong with a reply
  writes, crashes

etcdVars == <<docs, flight>>
diskVars == <<log, dur, whole, known>>
memVars  == <<life, seen, pending, linked, promise, acks>>
histVars == <<truth, bad, writes, crashes>>
vars     == <<etcdVars, diskVars, memVars, net, read, histVars>>

-----------------------------------------------------------------------------
(* Small helpers *)

Max(S)         == CHOOSE x \in S : \A y \in S : y <= x
IsPrefix(s, t) == Len(s) <= Len(t) /\ \A i \in 1..Len(s) : s[i] = t[i]
Cut(s, k)      == SubSeq(s, 1, k)
Common(s, t)   == Max({k \in 0..Len(s) : k <= Len(t) /\ \A i \in 1..k : s[i] = t[i]})
LastTerm(s)    == IF s = <<>> THEN 0 ELSE s[Len(s)].term

Now         == docs[Len(docs)]              \* the document as etcd has it
View(n)     == docs[seen[n]]                \* the document as n knows it
Me(n)       == <<n, life[n]>>               \* a member is a node in one of its lives
Term(n)     == View(n).term
IsLeader(n) == View(n).leader = Me(n)       \* n believes that it is the primary
InSyncNode(n, set) == \E x \in set : x[1] = n

(* Rule 8.  That life is over, and somebody saw it: the watcher's key, or    *)
(* the node has started a new life.  Mutant: the proof names only the node.  *)
Dead(x) == IF Mutant = "DeadByNode" THEN life[x[1]] > 1
                                    ELSE life[x[1]] # x[2]

(* A primary on its way out: its planned handover is with etcd. *)
Handing(p) == pending[p] # None /\ IsLeader(p) /\ pending[p].new.leader # Me(p)
(* A member on its way in: its takeover is with etcd. *)
Candidate(m) == pending[m] # None /\ ~IsLeader(m) /\ pending[m].new.leader = Me(m)

(* m is a replica of p, and p knows that it is the primary of that term.     *)
Follows(m, p) == /\ m # p
                 /\ View(m).leader = Me(p)
                 /\ IsLeader(p)
                 /\ Term(p) = Term(m)

(* Rule 6.  Whom the primary waits for.  While it does not know what became  *)
(* of its CAS: everybody who is in in_sync before it or after it.            *)
Needed(p) ==
  LET old == View(p).in_sync
      new == IF pending[p] = None THEN old ELSE pending[p].new.in_sync
  IN  CASE Mutant = "ShrinkEarly" /\ new \subseteq old -> new
        [] Mutant = "GrowLate" -> old
        [] OTHER -> old \cup new

Holds(p, x)      == acks[p][x[1]].life = x[2] /\ acks[p][x[1]].grant
HasAck(p, x, k)  == acks[p][x[1]].life = x[2] /\ acks[p][x[1]].off >= k

(* Mutant of rule 11: etcd is away, so those who do not answer are left out   *)
(* without a CAS.                                                            *)
Peers(p) == LET others == Needed(p) \ {Me(p)}
            IN  IF Mutant = "ShrinkWithoutEtcd" THEN {x \in others : Holds(p, x)}
                                                ELSE others

(* Would p be alone in in_sync, or may it be after a CAS on its way? *)
GoingAlone(p) == pending[p] # None /\ pending[p].new.in_sync = {Me(p)}

(* Rule 4.  How far every member has acknowledged.  The primary itself       *)
(* counts: with ack = durable its own journal must have it, too.             *)
(* Rule 7: while a CAS that leaves p alone is on its way, only what is       *)
(* durable at p counts (b).                                                  *)
Commit(p) ==
  Max({0} \cup {k \in 0..Len(log[p]) :
         /\ Ack = "durable" => k <= dur[p]
         /\ (GoingAlone(p) /\ Mutant # "AloneNoSync") => k <= dur[p]
         /\ IF Mutant = "AckByOne"
              THEN Peers(p) # {} => \E x \in Peers(p) : HasAck(p, x, k)
              ELSE \A x \in Peers(p) : HasAck(p, x, k)})

(* Rule 2.  The primary answers only while it holds the grant of every other *)
(* member; and not during its own handover (rule 12).                        *)
CanServe(p) ==
  /\ IsLeader(p)
  /\ Mutant = "HandoverNoStop" \/ ~Handing(p)
  /\ Mutant = "ServeWithoutGrants" \/ \A x \in Peers(p) : Holds(p, x)

NoAck == [life |-> 0, off |-> 0, grant |-> FALSE]
NoAcks == [m \in Node |-> NoAck]

-----------------------------------------------------------------------------
(* etcd *)

(* Every change of the document begins here.  Rule 7 (a): who may be alone   *)
(* in in_sync after it makes its journal durable first.                      *)
Propose(n, new) ==
  LET req == [base |-> seen[n], new |-> new]
  IN  /\ pending[n] = None
      /\ seen[n] < MaxRev
      /\ new.term <= MaxTerm
      \* A request against an old revision can only fail, and while it is on its
      \* way its author only does less; so leave it out.
      /\ seen[n] = Len(docs)
      /\ pending' = [pending EXCEPT ![n] = req]
      /\ flight' = flight \cup {req}
      /\ dur' = IF new.in_sync = {Me(n)} /\ Mutant # "AloneNoSync"
                  THEN [dur EXCEPT ![n] = Len(log[n])] ELSE dur
      /\ UNCHANGED <<docs, log, whole, known, life, seen, linked, promise, acks,
                     net, read, histVars>>

(* etcd carries out a request; all others against the same revision fail.    *)
(* It may do so long after its author gave up or died.                       *)
EtcdApplies ==
  \E r \in flight :
    /\ docs' = Append(docs, r.new)
    /\ flight' = {}
    /\ UNCHANGED <<diskVars, memVars, net, read, histVars>>

(* A node learns of a newer document: the answer to its CAS, a watch event   *)
(* (all of them come, in order, late) or a read.  Only a revision after the  *)
(* one it compared with tells a node the outcome of its CAS.                 *)
Learn(n) ==
  \E j \in (seen[n] + 1)..Len(docs) :
    LET newTerm == docs[j].term # Term(n)
    IN  /\ seen' = [seen EXCEPT ![n] = j]
        /\ pending' = [pending EXCEPT ![n] = None]
        \* A new term: old links, grants and held replies are gone (rule 5).
        /\ linked'  = IF newTerm THEN [linked  EXCEPT ![n] = FALSE] ELSE linked
        /\ promise' = IF newTerm THEN [promise EXCEPT ![n] = FALSE] ELSE promise
        /\ acks'    = IF newTerm THEN [acks EXCEPT ![n] = NoAcks] ELSE acks
        /\ read'    = IF newTerm /\ read # None /\ read.node = n THEN None ELSE read
        /\ known'   = IF docs[j].leader = Me(n) THEN [known EXCEPT ![n] = docs[j].term] ELSE known
        /\ net'     = IF newTerm /\ Mutant # "AckAnyTerm"
                        THEN {x \in net : x.to # n} ELSE net
        /\ UNCHANGED <<etcdVars, log, dur, whole, life, histVars>>

(* Mutant of rule 6: the CAS timed out, the document still has the old       *)
(* revision, so it is taken for failed.  It may be carried out yet.          *)
GiveUp(n) ==
  /\ Mutant = "UnknownIsFailed"
  /\ pending[n] # None
  /\ pending' = [pending EXCEPT ![n] = None]
  /\ UNCHANGED <<etcdVars, diskVars, life, seen, linked, promise, acks, net, read, histVars>>

-----------------------------------------------------------------------------
(* Clients: a reply is an event.  A command may run whenever a node believes *)
(* itself primary (a pause may lie between any check and the command); what  *)
(* the rules guard is the reply.                                             *)

Write(p) ==
  /\ IsLeader(p) /\ whole[p]
  /\ Mutant = "HandoverNoStop" \/ ~Handing(p)
  /\ writes < MaxWrites
  /\ writes' = writes + 1
  /\ log' = [log EXCEPT ![p] = Append(@, [term |-> Term(p), id |-> writes'])]
  /\ UNCHANGED <<etcdVars, dur, whole, known, memVars, net, read, truth, bad, crashes>>

(* What a reply that tells of the first k writes of p means for the truth.   *)
Release(p, k, must, text) ==
  LET told == Cut(log[p], k)
  IN  /\ bad' = IF ~IsPrefix(Cut(truth, must), told) THEN text
                ELSE IF ~IsPrefix(told, truth) /\ ~IsPrefix(truth, told) THEN "two histories"
                ELSE bad
      /\ truth' = IF IsPrefix(truth, told) THEN told ELSE truth

(* Rules 3 and 4: the acknowledgement of a write leaves. *)
WriteReply(p) ==
  /\ CanServe(p)
  /\ ~IsPrefix(Cut(log[p], Commit(p)), truth)         \* else nothing new is said
  /\ Release(p, Commit(p), 0, "")
  /\ UNCHANGED <<etcdVars, diskVars, memVars, net, read, writes, crashes>>

(* A read arrives and runs at once (the hardest case: it must see all that   *)
(* was acknowledged before it began).  A newer read replaces an older one,   *)
(* which then is never answered.                                             *)
ReadRuns(p) ==
  /\ "read" \in Features
  /\ IsLeader(p) /\ whole[p]
  /\ IF Mutant = "CheckBeforeRun" THEN read # None /\ read.node = p /\ ~read.ran
                                  ELSE TRUE
  /\ read' = [node |-> p, ran |-> TRUE, len |-> Len(log[p]), must |-> Len(truth)]
  /\ read' # read
  /\ UNCHANGED <<etcdVars, diskVars, memVars, net, histVars>>

(* Rules 3 and 4: the answer to a read leaves only if the grants are valid   *)
(* after the command ran, and only when all it saw is acknowledged.          *)
ReadReply(p) ==
  /\ read # None /\ read.node = p /\ read.ran
  /\ IsLeader(p)
  /\ Mutant = "CheckBeforeRun" \/ CanServe(p)
  /\ Mutant = "ReadUnacked" \/ read.len <= Commit(p)
  /\ Release(p, read.len, read.must, "stale read")
  /\ read' = None
  /\ UNCHANGED <<etcdVars, diskVars, memVars, net, writes, crashes>>

(* Mutant of rule 3: the turn checks the grants first and runs commands after. *)
CheckBeforeRun(p) ==
  /\ Mutant = "CheckBeforeRun" /\ "read" \in Features
  /\ CanServe(p)
  /\ read' = [node |-> p, ran |-> FALSE, len |-> 0, must |-> 0]
  /\ read' # read
  /\ UNCHANGED <<etcdVars, diskVars, memVars, net, histVars>>

-----------------------------------------------------------------------------
(* Replication *)

(* A replica whose data are a prefix of the primary's goes on from there.    *)
(* (In reality replication ids tell this.)  The manifest gets the term.      *)
Connect(m) ==
  \E p \in Node :
    /\ Follows(m, p) /\ ~linked[m] /\ whole[m] /\ ~Candidate(m)
    /\ Term(m) >= known[m]                 \* rule 9: never follow an older term
    /\ IsPrefix(log[m], log[p])
    /\ linked' = [linked EXCEPT ![m] = TRUE]
    /\ known'  = [known EXCEPT ![m] = Term(m)]
    /\ UNCHANGED <<etcdVars, log, dur, whole, life, seen, pending, promise, acks,
                   net, read, histVars>>

(* The link breaks; the node has to connect or copy again. *)
Disconnect(m) ==
  /\ "disconnect" \in Features
  /\ linked[m]
  /\ linked' = [linked EXCEPT ![m] = FALSE]
  /\ UNCHANGED <<etcdVars, diskVars, life, seen, pending, promise, acks, net, read, histVars>>

Fetch(m) ==
  \E p \in Node :
    /\ Follows(m, p) /\ linked[m] /\ ~Candidate(m)
    /\ Len(log[m]) < Len(log[p])
    /\ log' = [log EXCEPT ![m] = Append(@, log[p][Len(@) + 1])]
    /\ UNCHANGED <<etcdVars, dur, whole, known, memVars, net, read, histVars>>

Sync(n) ==
  /\ Ack = "durable"        \* with "applied" nothing is durable until it has to be
  /\ dur[n] < Len(log[n])
  /\ dur' = [dur EXCEPT ![n] = Len(log[n])]
  /\ UNCHANGED <<etcdVars, log, whole, known, memVars, net, read, histVars>>

(* Rule 8 (full copy).  The primary starts a full copy, for which the        *)
(* replica drops its data, only to a node that is, in no life, in the union  *)
(* that it waits for.  The replica's own look at the document is not enough: *)
(* a CAS that grows it may be on its way.                                    *)
CopyBegins(m) ==
  \E p \in Node :
    /\ "copy" \in Features
    /\ Follows(m, p) /\ ~linked[m] /\ whole[m] /\ ~Candidate(m)
    /\ Term(m) >= known[m]                 \* rule 9: never follow an older term
    /\ CASE Mutant = "CopyNoGate"      -> TRUE
         [] Mutant = "CopyGateOwnView" -> Me(m) \notin View(m).in_sync /\ pending[m] = None
         [] Mutant = "CopyingElected"  -> TRUE
         [] OTHER                      -> ~InSyncNode(m, Needed(p))
    /\ log'   = [log EXCEPT ![m] = <<>>]
    /\ dur'   = [dur EXCEPT ![m] = 0]
    /\ whole' = [whole EXCEPT ![m] = FALSE]
    \* Rule 5: with the copy a new link begins; what m said before counts no more.
    /\ acks' = IF Mutant = "AckOldLink" THEN acks ELSE [acks EXCEPT ![p][m] = NoAck]
    /\ net'  = IF Mutant = "AckOldLink" THEN net
               ELSE {x \in net : ~(x.from = m /\ x.to = p)}
    /\ UNCHANGED <<etcdVars, known, life, seen, pending, linked, promise, read, histVars>>

CopyEnds(m) ==
  \E p \in Node :
    /\ Follows(m, p) /\ ~whole[m] /\ ~Candidate(m)
    /\ Term(m) >= known[m]                 \* rule 9: never follow an older term
    /\ log'   = [log EXCEPT ![m] = log[p]]
    \* with ack = durable the copy is durable before the manifest calls it whole
    /\ dur'   = [dur EXCEPT ![m] = IF Ack = "durable" THEN Len(log[p]) ELSE 0]
    /\ whole' = [whole EXCEPT ![m] = TRUE]
    /\ known' = [known EXCEPT ![m] = Term(m)]
    /\ linked' = [linked EXCEPT ![m] = TRUE]
    /\ UNCHANGED <<etcdVars, life, seen, pending, promise, acks, net, read, histVars>>

-----------------------------------------------------------------------------
(* Acknowledgements and grants *)

(* Rule 1, the member's side: with each acknowledgement it promises to take  *)
(* over from nobody for a while.  Rule 7: not from the moment it decided to  *)
(* take over.  Rule 5: term and both lives are in the message.               *)
SendAck(m) ==
  LET msg == [from |-> m, life |-> life[m],
              to |-> View(m).leader[1], tolife |-> View(m).leader[2], term |-> Term(m),
              off |-> IF Ack = "durable" THEN dur[m] ELSE Len(log[m]),
              grant |-> TRUE]
      \* on one connection a newer acknowledgement overtakes none: it stands for both
      others == {x \in net : [x EXCEPT !.off = 0, !.grant = TRUE] # [msg EXCEPT !.off = 0]}
  IN  /\ linked[m] /\ ~IsLeader(m)
      /\ Mutant = "KeepGranting" \/ ~Candidate(m)
      \* Beats that tell the primary nothing new only in runs with "renew".
      /\ "renew" \in Features \/ acks[msg.to][m] # [life |-> life[m], off |-> msg.off, grant |-> TRUE]
      /\ net' = others \cup {msg}
      /\ promise' = [promise EXCEPT ![m] = TRUE]
      /\ <<net', promise'>> # <<net, promise>>
      /\ UNCHANGED <<etcdVars, diskVars, life, seen, pending, linked, acks, read, histVars>>

(* Rule 1, the primary's side, and rule 5: an acknowledgement counts only    *)
(* for the term and for the lives of both sides that it names.               *)
Receive(p) ==
  \E x \in net :
    LET m   == x.from
        old == acks[p][m]
        lf  == IF Mutant = "AckAnyLife" /\ InSyncNode(m, Needed(p))
                 THEN (CHOOSE y \in Needed(p) : y[1] = m)[2] ELSE x.life
    IN  /\ x.to = p /\ IsLeader(p)
        /\ x.tolife = life[p]
        /\ Mutant = "AckAnyTerm" \/ x.term = Term(p)
        \* what a needed life said is not forgotten for another life's sake
        /\ lf = old.life \/ <<m, old.life>> \notin Needed(p)
        /\ acks' = [acks EXCEPT ![p][m] =
                      IF old.life = lf
                        THEN [life |-> lf, off |-> Max({old.off, x.off}), grant |-> old.grant \/ x.grant]
                        ELSE [life |-> lf, off |-> x.off, grant |-> x.grant]]
        /\ net' = net \ {x}
        /\ UNCHANGED <<etcdVars, diskVars, life, seen, pending, linked, promise, read, histVars>>

(* By the primary's clock the grant of m is over. *)
ViewEnds(p, m) ==
  /\ acks[p][m].grant
  /\ acks' = [acks EXCEPT ![p][m].grant = FALSE]
  /\ UNCHANGED <<etcdVars, diskVars, life, seen, pending, linked, promise, net, read, histVars>>

(* By the member's clock its grant is over.  Rule 1 (beat counted from       *)
(* before it was sent, margin) makes this later than the end of the          *)
(* primary's view, and what is still on its way is too old to count.         *)
PromiseEnds(m) ==
  LET l == View(m).leader
      p == l[1]
      stillHeld == l = Me(p) /\ IsLeader(p) /\ Term(p) = Term(m) /\ Holds(p, Me(m))
      mine(x) == x.from = m /\ x.life = life[m] /\ x.term = Term(m)
  IN  /\ promise[m]
      /\ Mutant = "NoMargin" \/ ~stillHeld
      /\ promise' = [promise EXCEPT ![m] = FALSE]
      /\ net' = IF Mutant = "NoMargin" THEN net
                ELSE {IF mine(x) THEN [x EXCEPT !.grant = FALSE] ELSE x : x \in net}
      /\ UNCHANGED <<etcdVars, diskVars, life, seen, pending, linked, acks, read, histVars>>

-----------------------------------------------------------------------------
(* Changes of the document *)

(* Rule 6: a member that does not answer is left out. *)
Shrink(p) ==
  /\ "shrink" \in Features
  /\ IsLeader(p)
  /\ \E x \in View(p).in_sync \ {Me(p)} :
       Propose(p, [View(p) EXCEPT !.in_sync = @ \ {x}])

(* Only the primary takes a member out.  Mutant: a member may                 *)
(* take itself out; it may be the last one that has everything.               *)
Leave(m) ==
  /\ Mutant = "SelfRemoval"
  /\ ~IsLeader(m) /\ Me(m) \in View(m).in_sync
  /\ Propose(m, [View(m) EXCEPT !.in_sync = @ \ {Me(m)}])

(* Rule 6: r has everything that was acknowledged, also by former primaries: *)
(* it has all that p had when its term began, and all p has acknowledged     *)
(* since; and r has granted.                                                 *)
Start(p) == Cardinality({i \in 1..Len(log[p]) : log[p][i].term < Term(p)})

Grow(p) ==
  /\ "grow" \in Features
  /\ IsLeader(p)
  /\ \E m \in Node \ {p} :
       LET a == acks[p][m] IN
       /\ a.life # 0 /\ ~InSyncNode(m, View(p).in_sync)
       /\ a.grant
       /\ CASE Mutant = "GrowUncaught"   -> TRUE
            [] Mutant = "GrowCommitOnly" -> a.off >= Commit(p)
            [] OTHER                     -> a.off >= Commit(p) /\ a.off >= Start(p)
       /\ Propose(p, [View(p) EXCEPT !.in_sync = @ \cup {<<m, a.life>>}])

(* Rule 7: a member of in_sync, by node and life, takes over when its own    *)
(* grant is over or the primary's life is proven dead.                       *)
TakeOver(m) ==
  LET d == View(m)
      member == CASE Mutant = "NonMember" -> TRUE
                  [] OTHER -> Me(m) \in d.in_sync
  IN  /\ "takeover" \in Features
      /\ ~IsLeader(m)
      /\ member
      /\ Mutant = "CopyingElected" \/ whole[m]
      /\ Mutant = "LeaseOnly" \/ ~promise[m] \/ Dead(d.leader)
      /\ Propose(m, [term |-> d.term + 1, leader |-> Me(m),
                     in_sync |-> (d.in_sync \ {d.leader}) \cup {Me(m)}])

(* Rule 12: planned handover.  p has stopped (Handing), b has everything. *)
HandOver(p) ==
  /\ "handover" \in Features
  /\ IsLeader(p)
  /\ \E b \in View(p).in_sync \ {Me(p)} :
       /\ HasAck(p, b, Len(log[p]))
       /\ Propose(p, [View(p) EXCEPT !.term = @ + 1, !.leader = b])

(* Rule 10: every life in in_sync is proven dead (the old primary     *)
(* alone is the simplest case).  A node of in_sync that has its folder leads *)
(* in its new life.  With ack = durable each of them has all that was         *)
(* acknowledged.  With ack = applied all must be back with their folders,     *)
(* and the one with the greatest (term of its last slice, offset) leads,      *)
(* asked for after the deaths were known.                                     *)
AtLeast(n, m) ==
  CASE Mutant = "RecoverAny" -> TRUE
    [] Mutant = "RecoverByOffset" -> Len(log[n]) >= Len(log[m])
    [] Mutant = "RecoverByKnownTerm" ->
         \/ known[n] > known[m]
         \/ known[n] = known[m] /\ Len(log[n]) >= Len(log[m])
    [] OTHER ->
         \/ LastTerm(log[n]) > LastTerm(log[m])
         \/ LastTerm(log[n]) = LastTerm(log[m]) /\ Len(log[n]) >= Len(log[m])

Recover(n) ==
  LET d == View(n)
  IN  /\ "recover" \in Features
      /\ InSyncNode(n, d.in_sync)
      /\ Me(n) \notin d.in_sync
      /\ \A x \in d.in_sync : Dead(x)
      /\ Mutant = "EmptyLeads" \/ whole[n]
      /\ Ack = "applied" =>
           \A x \in d.in_sync : (Mutant = "EmptyLeads" \/ whole[x[1]]) /\ AtLeast(n, x[1])
      /\ Propose(n, [term |-> d.term + 1, leader |-> Me(n), in_sync |-> {Me(n)}])

-----------------------------------------------------------------------------
(* Faults *)

(* What the promise leaves out: a write may be lost only when crashes took it  *)
(* (tails that were not durable, or disks) from every member of in_sync, as   *)
(* etcd has it or, after a CAS that is on its way, may soon have it.  A CAS   *)
(* that leaves its author alone is no excuse: rule 7 makes it durable first.  *)
StillHeld(newLog) ==
  LET outcomes == {Now.in_sync} \cup {r.new.in_sync : r \in {q \in flight : Cardinality(q.new.in_sync) > 1}}
      held(set) == Max({Common(truth, newLog[x[1]]) : x \in set})
      kept == {held(set) : set \in outcomes}
  IN  Cut(truth, CHOOSE k \in kept : \A j \in kept : k <= j)

NewLife(n, newLog) ==
  /\ crashes < MaxCrashes
  /\ crashes' = crashes + 1
  /\ log'  = newLog
  /\ life' = IF Mutant = "LifeIgnored" THEN life ELSE [life EXCEPT ![n] = @ + 1]
  \* Rule 9: a new life first reads the document, linearizably.
  /\ \E j \in (IF Mutant = "StaleStart" THEN 1..Len(docs) ELSE {Len(docs)}) :
        seen' = [seen EXCEPT ![n] = j]
  /\ pending' = [pending EXCEPT ![n] = None]
  /\ linked'  = [linked EXCEPT ![n] = FALSE]
  /\ promise' = [promise EXCEPT ![n] = FALSE]
  /\ acks'    = [acks EXCEPT ![n] = NoAcks]
  /\ net'     = {x \in net : x.to # n}
  /\ truth'   = StillHeld(newLog)
  /\ read'    = IF read = None THEN None
                ELSE IF read.node = n THEN None
                ELSE [read EXCEPT !.must = IF @ > Len(truth') THEN Len(truth') ELSE @]
  /\ UNCHANGED <<etcdVars, bad, writes>>

(* Power failure or kill, then restart: any part of the tail that was not    *)
(* durable is gone.  Rule 9: this is a new life.                             *)
Crash(n) ==
  /\ "crash" \in Features
  /\ \E k \in dur[n]..Len(log[n]) :
       /\ NewLife(n, [log EXCEPT ![n] = Cut(@, k)])
       /\ dur' = [dur EXCEPT ![n] = k]
  /\ UNCHANGED <<whole, known>>

(* The same with an empty folder. *)
Wipe(n) ==
  /\ "wipe" \in Features
  /\ NewLife(n, [log EXCEPT ![n] = <<>>])
  /\ dur'   = [dur EXCEPT ![n] = 0]
  /\ whole' = [whole EXCEPT ![n] = FALSE]
  /\ known' = [known EXCEPT ![n] = 0]

-----------------------------------------------------------------------------
Seed == [term |-> 0, id |-> 0]     \* written before term 1; everybody in in_sync has it at the start

Init ==
  \E p \in {First}, S \in SUBSET Node :
    /\ p \in S /\ Cardinality(S) = InitInSync
    /\ docs = << [term |-> 1, leader |-> <<p, 1>>, in_sync |-> {<<n, 1>> : n \in S}] >>
    /\ flight = {}
    /\ log   = [n \in Node |-> IF n \in S THEN <<Seed>> ELSE <<>>]
    /\ dur   = [n \in Node |-> IF n \in S /\ Ack = "durable" THEN 1 ELSE 0]
    /\ whole = [n \in Node |-> TRUE]
    /\ known = [n \in Node |-> 1]
    /\ life  = [n \in Node |-> 1]
    /\ seen  = [n \in Node |-> 1]
    /\ pending = [n \in Node |-> None]
    /\ linked  = [n \in Node |-> n # p]
    /\ promise = [n \in Node |-> FALSE]
    /\ acks = [n \in Node |-> NoAcks]
    /\ net = {} /\ read = None
    /\ truth = <<Seed>> /\ bad = "" /\ writes = 0 /\ crashes = 0

Next ==
  \/ EtcdApplies
  \/ \E n \in Node :
       \/ Learn(n) \/ GiveUp(n)
       \/ Write(n) \/ WriteReply(n) \/ ReadRuns(n) \/ ReadReply(n) \/ CheckBeforeRun(n)
       \/ Connect(n) \/ Disconnect(n) \/ Fetch(n) \/ Sync(n) \/ CopyBegins(n) \/ CopyEnds(n)
       \/ SendAck(n) \/ Receive(n) \/ PromiseEnds(n)
       \/ \E m \in Node : ViewEnds(n, m)
       \/ Shrink(n) \/ Leave(n) \/ Grow(n) \/ TakeOver(n) \/ HandOver(n) \/ Recover(n)
       \/ Crash(n) \/ Wipe(n)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

\* A read never misses a write that was acknowledged (or shown) before it began.
NoStaleRead == bad # "stale read"

\* All replies tell of one history.
OneHistory == bad # "two histories"

\* The primary of the current term has all that was acknowledged or shown:
\* nothing acknowledged is lost, nothing shown is gone later.
NothingLost ==
  \A n \in Node : (IsLeader(n) /\ Term(n) = Now.term) => IsPrefix(truth, log[n])

\* A node without its data does not believe itself primary.
LeaderWhole == \A n \in Node : IsLeader(n) => whole[n]

\* At most one node can release replies.
OneServes == \A n, m \in Node : CanServe(n) /\ CanServe(m) => n = m

\* Why it is right: every living member of in_sync has all that was acknowledged,
\* so any of them may lead.
MembersComplete ==
  \A x \in Now.in_sync :
    (life[x[1]] = x[2]) => (whole[x[1]] /\ IsPrefix(truth, log[x[1]]))

\* The same for dead members that kept their disks, with ack = durable.
DisksComplete ==
  Ack = "durable" =>
    \A x \in Now.in_sync : whole[x[1]] => IsPrefix(truth, log[x[1]])

LeaderInSync == \A i \in 1..Len(docs) : docs[i].leader \in docs[i].in_sync

TypeOK ==
  /\ Len(docs) \in 1..MaxRev
  /\ \A n \in Node : /\ seen[n] \in 1..Len(docs)
                     /\ dur[n] \in 0..Len(log[n])
                     /\ ~whole[n] => log[n] = <<>>
  /\ \A r \in flight : r.base = Len(docs)

(* Not vacuous: each of these must be VIOLATED, the trace shows the event.    *)
NeverFailover  == ~ \E i \in 1..Len(truth) : truth[i].term >= 2
NeverTwoFailovers == ~ \E i \in 1..Len(truth) : truth[i].term >= 3
NeverGrownBack == ~ (Now.term >= 2 /\ \E x \in Now.in_sync : x[2] >= 2 /\ x # Now.leader
                       /\ \E p \in Node : Me(p) = Now.leader /\ CanServe(p) /\ Len(truth) >= 3)
NeverHandedOver == ~ (\E p \in Node : CanServe(p) /\ Term(p) = 2 /\ Cardinality(View(p).in_sync) = 3
                       /\ LastTerm(truth) = 2)
NeverRecovered == ~ (crashes >= 2 /\ \E p \in Node : CanServe(p) /\ life[p] >= 2
                       /\ LastTerm(truth) >= 2)
NeverCopied == ~ (\E m, p \in Node : Follows(m, p) /\ whole[m] /\ linked[m] /\ LastTerm(truth) >= 2
                       /\ Me(m) \in Now.in_sync /\ CanServe(p) /\ life[m] >= 2)

-----------------------------------------------------------------------------
(* For TLC *)
Symmetry == {f \in Permutations(Node) : f[First] = First}

\* Versions of the document that nobody can come to see any more do not matter.
Oldest == CHOOSE i \in {seen[n] : n \in Node} : \A n \in Node : i <= seen[n]
StateView == <<Len(docs), SubSeq(docs, Oldest, Len(docs)), flight, diskVars, memVars,
               net, read, histVars>>
=============================================================================
