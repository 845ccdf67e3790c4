------------------------------ MODULE OffersMC ------------------------------
(* Numbers of pushes for the runs of Offers.toml (a function cannot stand in a configuration of TLC). *)
EXTENDS Offers
TwoAndOne == [k \in Queues |-> IF k = 1 THEN 2 ELSE 1]
OneEach == [k \in Queues |-> 1]
TwoEach == [k \in Queues |-> 2]
=============================================================================
