// Package jobs takes jobs with leases from Darter, over go-redis:
//
//	worker := &jobs.Worker{Client: client, Queues: []string{"mail"}, Handle: func(ctx context.Context, job jobs.Job) error {
//		return send(ctx, job.Payload)
//	}}
//	err := worker.Run(ctx) // until ctx is done
//
// A job whose worker dies runs again elsewhere when its lease ends, so it runs at least once. A job whose handler fails comes again
// later; after its last attempt it is dead (JOB.LIST queue DEAD).
package jobs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// How long a call waits for a job: an idle worker looks that often whether it is to stop.
	wait = time.Second
	// So many times in a lease a worker says that it lives.
	beatsPerLease = 4
	leaseDefault  = 30 * time.Second
)

// Job is a job that this worker has.
type Job struct {
	Queue, ID string
	// Attempt is 1 for the first one.
	Attempt int64
	Payload string
}

// Options of a job; what is zero is left out.
type Options struct {
	ID        string
	Delay     time.Duration
	Unique    string        // the lock that the job holds
	UniqueFor time.Duration // for so long at most
	Tries     int
	Expire    time.Duration // dropped unless it has begun by then
}

// Put adds a job and returns its id; with Unique, the id of the job that holds this lock, if there is one.
func Put(ctx context.Context, client redis.UniversalClient, queue, payload string, options Options) (string, error) {
	words := []any{"JOB.PUT", queue, payload}
	add := func(word string, value any, given bool) {
		if given {
			words = append(words, word, value)
		}
	}
	add("ID", options.ID, options.ID != "")
	add("IN", options.Delay.Milliseconds(), options.Delay > 0)
	add("UNIQUE", options.Unique, options.Unique != "")
	add("FOR", options.UniqueFor.Milliseconds(), options.UniqueFor > 0)
	add("TRIES", options.Tries, options.Tries > 0)
	add("EXPIRE", options.Expire.Milliseconds(), options.Expire > 0)
	return client.Do(ctx, words...).Text()
}

// Worker takes jobs from queues, the first one first, and has Handle do them.
type Worker struct {
	Client redis.UniversalClient
	Queues []string
	Handle func(context.Context, Job) error
	// After so long the jobs of a worker that died come back; 30 s if zero.
	Lease time.Duration
	// How many jobs it does at once; 1 if zero.
	Concurrency int
	// After how long a job comes again whose handler failed; 10 s, doubled each time up to an hour, if nil.
	Backoff func(attempt int64) time.Duration

	name string
}

// Run works until ctx is done, and then ends the jobs that it does, whose own context stays alive.
func (w *Worker) Run(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	var chance [6]byte
	if _, err := rand.Read(chance[:]); err != nil {
		return err
	}
	w.name = fmt.Sprintf("%s:%d:%s", host, os.Getpid(), hex.EncodeToString(chance[:]))
	if w.Lease == 0 {
		w.Lease = leaseDefault
	}
	// Leases are kept until the last job has ended.
	kept, end := context.WithCancel(context.WithoutCancel(ctx))
	var keeper, workers sync.WaitGroup
	keeper.Go(func() { w.keep(kept) })
	for range max(1, w.Concurrency) {
		workers.Go(func() { w.work(ctx) })
	}
	workers.Wait()
	end()
	keeper.Wait()
	return nil
}

func (w *Worker) work(ctx context.Context) {
	words := []any{"JOB.TAKE", w.name, "LEASE", w.Lease.Milliseconds(), "WAIT", wait.Milliseconds(), "FROM"}
	for _, queue := range w.Queues {
		words = append(words, queue)
	}
	for ctx.Err() == nil {
		// Not called off by ctx: what was taken in that moment would be nobody's until its lease ends.
		taken, err := w.Client.Do(context.WithoutCancel(ctx), words...).Slice()
		if err != nil && !errors.Is(err, redis.Nil) {
			sleep(ctx, time.Second)
		}
		for _, one := range taken {
			fields := one.([]any)
			job := Job{Queue: fields[0].(string), ID: fields[1].(string), Attempt: fields[2].(int64), Payload: fields[3].(string)}
			w.do(context.WithoutCancel(ctx), job)
		}
	}
}

// do has a job done and says how it ended. It names the attempt: if the lease has ended, another worker may have the job.
func (w *Worker) do(ctx context.Context, job Job) {
	if err := w.Handle(ctx, job); err != nil {
		delay := w.backoff(job.Attempt).Milliseconds()
		w.say(ctx, "JOB.FAIL", job.Queue, job.ID, "ATTEMPT", job.Attempt, "IN", delay, "WHY", err.Error())
		return
	}
	w.say(ctx, "JOB.DONE", job.Queue, "ATTEMPT", job.ID, job.Attempt)
}

func (w *Worker) backoff(attempt int64) time.Duration {
	if w.Backoff != nil {
		return w.Backoff(attempt)
	}
	return min(time.Hour, 5*time.Second<<min(attempt, 10))
}

// say says how a job ended, again if the server cannot be reached, until its lease has ended.
func (w *Worker) say(ctx context.Context, words ...any) {
	for until := time.Now().Add(w.Lease); time.Now().Before(until); sleep(ctx, time.Second) {
		if err := w.Client.Do(ctx, words...).Err(); err == nil || errors.Is(err, redis.Nil) {
			return
		}
	}
}

// keep says that this worker lives: none of its leases ends meanwhile.
func (w *Worker) keep(ctx context.Context) {
	for sleep(ctx, w.Lease/beatsPerLease) {
		for _, queue := range w.Queues {
			// If it fails, the next one may not.
			_ = w.Client.Do(ctx, "JOB.KEEP", queue, w.Lease.Milliseconds(), "WORKER", w.name).Err()
		}
	}
}

// sleep is false if ctx was done before.
func sleep(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}
