// Package jobs takes jobs with leases from Darter, over go-redis:
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
//	defer stop()
//	worker := &jobs.Worker{Client: client, Queues: []string{"mail"}, Handle: func(ctx context.Context, job jobs.Job) error {
//		return send(ctx, job.Payload)
//	}}
//	err := worker.Run(ctx) // until SIGTERM
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
	"regexp"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// How long a call waits for a job: an idle worker looks that often whether it is to stop.
	wait = time.Second
	// So many times in a lease a worker says which jobs it still has.
	beatsPerLease = 4
	leaseDefault  = 30 * time.Second
	// How long a worker waits before it tries again.
	pause = time.Second
)

// Errors that no new attempt changes, and among them those that pass all the same. All others pass: the server cannot be reached, or
// cannot serve workers for now.
var (
	lasting = regexp.MustCompile("^(ERR|WRONGTYPE|NOPERM|NOAUTH|WRONGPASS) ")
	passing = regexp.MustCompile("^ERR max number of clients")
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
	At        time.Time     // instead of Delay
	Unique    string        // the lock that the job holds
	UniqueFor time.Duration // for so long at most
	Tries     int
	Group     string
	Expire    time.Duration // dropped unless it has begun by then
}

// Put adds a job and returns its id; with Unique, the id of the job that holds this lock, if there is one.
func Put(ctx context.Context, client redis.UniversalClient, queue, payload string, options Options) (string, error) {
	return client.Do(ctx, putting(queue, payload, options)...).Text()
}

// TryPut is the same, and says whether the job was added: with Unique, another job may hold the lock.
func TryPut(ctx context.Context, client redis.UniversalClient, queue, payload string, options Options) (id string, added bool, err error) {
	both, err := client.Do(ctx, append(putting(queue, payload, options), "WITHADDED")...).Slice()
	if err != nil {
		return "", false, err
	}
	if len(both) != 2 {
		return "", false, fmt.Errorf("JOB.PUT replied with %d values", len(both))
	}
	id, _ = both[0].(string)
	return id, both[1] == int64(1), nil
}

func putting(queue, payload string, options Options) []any {
	words := []any{"JOB.PUT", queue, payload}
	add := func(word string, value any, given bool) {
		if given {
			words = append(words, word, value)
		}
	}
	add("ID", options.ID, options.ID != "")
	add("IN", options.Delay.Milliseconds(), options.Delay > 0)
	add("AT", options.At.UnixMilli(), !options.At.IsZero())
	add("UNIQUE", options.Unique, options.Unique != "")
	add("FOR", options.UniqueFor.Milliseconds(), options.UniqueFor > 0)
	add("TRIES", options.Tries, options.Tries > 0)
	add("GROUP", options.Group, options.Group != "")
	add("EXPIRE", options.Expire.Milliseconds(), options.Expire > 0)
	return words
}

// Order is the order in which a worker looks at its queues.
type Order string

const (
	// Strict serves a queue only while those before it are empty.
	Strict Order = "STRICT"
	// Fair begins with any of them.
	Fair Order = "FAIR"
)

// Worker takes jobs from queues and has Handle do them.
type Worker struct {
	Client redis.UniversalClient
	Queues []string
	// Handle does a job. If it returns an error or panics, the job has failed.
	Handle func(context.Context, Job) error
	// After so long the jobs of a worker that died come back; 30 s if zero.
	Lease time.Duration
	// Strict if empty.
	Order Order
	// One for each queue, instead of Order.
	Weights []int
	// How many jobs it does at once; 1 if zero.
	Concurrency int
	// After how long a job comes again whose handler failed; 10 s, doubled each time up to an hour, if nil.
	Backoff func(attempt int64) time.Duration

	name string
	lock sync.Mutex
	jobs map[Job]struct{} // those that it does
}

// Run works until ctx is done, and then ends the jobs that it does, whose own context stays alive. It also ends, with the error, if the
// server refuses what it asks for.
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
	w.jobs = map[Job]struct{}{}
	if w.Lease == 0 {
		w.Lease = leaseDefault
	}
	// Leases are kept until the last job has ended.
	kept, end := context.WithCancel(context.WithoutCancel(ctx))
	working, fail := context.WithCancelCause(ctx)
	var keeper, workers sync.WaitGroup
	start(&keeper, func() { w.keep(kept) })
	for i := 0; i < max(1, w.Concurrency); i++ {
		start(&workers, func() {
			if err := w.work(working); err != nil {
				fail(err)
			}
		})
	}
	workers.Wait()
	end()
	keeper.Wait()
	defer fail(nil)
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(working)
}

func (w *Worker) work(ctx context.Context) error {
	words := w.take()
	for ctx.Err() == nil {
		// Not called off by ctx: what was taken in that moment would be nobody's until its lease ends.
		taken, err := w.Client.Do(context.WithoutCancel(ctx), words...).Slice()
		if err != nil && !errors.Is(err, redis.Nil) {
			if lasts(err) {
				return err
			}
			sleep(ctx, pause)
		}
		for _, one := range taken {
			fields := one.([]any)
			job := Job{Queue: fields[0].(string), ID: fields[1].(string), Attempt: fields[2].(int64), Payload: fields[3].(string)}
			if err := w.do(context.WithoutCancel(ctx), job); err != nil {
				return err
			}
		}
	}
	return nil
}

// take is the command that takes a job.
func (w *Worker) take() []any {
	words := []any{"JOB.TAKE", w.name, "LEASE", w.Lease.Milliseconds(), "WAIT", wait.Milliseconds()}
	switch {
	case len(w.Weights) > 0:
		words = append(words, "WEIGHTS")
		for _, weight := range w.Weights {
			words = append(words, weight)
		}
	case w.Order != "":
		words = append(words, string(w.Order))
	}
	words = append(words, "FROM")
	for _, queue := range w.Queues {
		words = append(words, queue)
	}
	return words
}

// do has a job done and says how it ended. It names the attempt: if the lease has ended, another worker may have the job.
func (w *Worker) do(ctx context.Context, job Job) error {
	w.lock.Lock()
	w.jobs[job] = struct{}{}
	w.lock.Unlock()
	defer func() {
		w.lock.Lock()
		delete(w.jobs, job)
		w.lock.Unlock()
	}()
	if why, failed := w.handle(ctx, job); failed {
		delay := w.backoff(job.Attempt).Milliseconds()
		return w.say(ctx, "JOB.FAIL", job.Queue, job.ID, "ATTEMPT", job.Attempt, "IN", delay, "WHY", why)
	}
	return w.say(ctx, "JOB.DONE", job.Queue, "ATTEMPT", job.ID, job.Attempt)
}

// handle has a job done, and says why if it failed. A panic, also of an error's own text, fails that job only.
func (w *Worker) handle(ctx context.Context, job Job) (why string, failed bool) {
	defer func() {
		if cause := recover(); cause != nil {
			why, failed = fmt.Sprintf("panic: %v", cause), true
		}
	}()
	if err := w.Handle(ctx, job); err != nil {
		return err.Error(), true
	}
	return "", false
}

// has returns the jobs that this worker does.
func (w *Worker) has() []Job {
	w.lock.Lock()
	defer w.lock.Unlock()
	jobs := make([]Job, 0, len(w.jobs))
	for job := range w.jobs {
		jobs = append(jobs, job)
	}
	return jobs
}

func (w *Worker) backoff(attempt int64) time.Duration {
	if w.Backoff != nil {
		return w.Backoff(attempt)
	}
	return min(time.Hour, 5*time.Second<<min(attempt, 10))
}

// say says how a job ended, again while the server cannot hear it, until its lease has ended.
func (w *Worker) say(ctx context.Context, words ...any) error {
	for until := time.Now().Add(w.Lease); time.Now().Before(until); sleep(ctx, pause) {
		err := w.Client.Do(ctx, words...).Err()
		if err == nil || errors.Is(err, redis.Nil) {
			return nil
		}
		if lasts(err) {
			return err
		}
	}
	return nil
}

// keep keeps the leases of its jobs. It names them: a job whose reply was lost is not kept, and comes back.
func (w *Worker) keep(ctx context.Context) {
	for sleep(ctx, w.Lease/beatsPerLease) {
		for _, job := range w.has() {
			// If it fails, the next one may not.
			_ = w.Client.Do(ctx, "JOB.KEEP", job.Queue, w.Lease.Milliseconds(), "ATTEMPT", job.ID, job.Attempt).Err()
		}
	}
}

// lasts says whether it is useless to try again.
func lasts(err error) bool {
	return lasting.MatchString(err.Error()) && !passing.MatchString(err.Error())
}

func start(group *sync.WaitGroup, run func()) {
	group.Add(1)
	go func() {
		defer group.Done()
		run()
	}()
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
