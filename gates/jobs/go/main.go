// A worker of clients/go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"darter/jobs"

	"github.com/redis/go-redis/v9"
)

func main() {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work() error {
	runs, err := os.OpenFile(os.Getenv("RUNS"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	seconds, err := strconv.Atoi(os.Getenv("LEASE_SECONDS"))
	if err != nil {
		return err
	}
	workSeconds, err := strconv.ParseFloat(os.Getenv("WORK_SECONDS"), 64)
	if err != nil {
		return err
	}
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	client, queue := redis.NewClient(options), os.Getenv("QUEUE")
	if len(os.Args) == 2 && os.Args[1] == "put" {
		return put(client, queue)
	}
	weights, err := numbers(os.Getenv("WEIGHTS"))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	worker := &jobs.Worker{
		Client:  client,
		Queues:  strings.Fields(queue),
		Lease:   time.Duration(seconds) * time.Second,
		Order:   jobs.Order(strings.ToUpper(os.Getenv("ORDER"))),
		Weights: weights,
		Handle: func(_ context.Context, job jobs.Job) error {
			var payload struct {
				Jid   string
				Fails bool
			}
			if err := json.Unmarshal([]byte(job.Payload), &payload); err != nil || payload.Jid != job.ID {
				return fmt.Errorf("%s is not %s: %w", payload.Jid, job.ID, err)
			}
			if payload.Fails {
				panic("it fails")
			}
			fmt.Fprintf(runs, "start %s %d\n", job.ID, os.Getpid())
			time.Sleep(time.Duration(workSeconds * float64(time.Second)))
			fmt.Fprintf(runs, "done %s %d\n", job.ID, os.Getpid())
			return nil
		},
	}
	return worker.Run(ctx)
}

func put(client *redis.Client, queue string) error {
	seconds, err := strconv.ParseInt(os.Getenv("AT_SECONDS"), 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := jobs.Put(ctx, client, queue, `{"id":"of a group"}`, jobs.Options{Group: "customer:17"}); err != nil {
		return err
	}
	if _, err = jobs.Put(ctx, client, queue, `{"id":"later"}`, jobs.Options{At: time.Unix(seconds, 0)}); err != nil {
		return err
	}
	for _, name := range []string{"one", "two"} {
		id, added, err := jobs.TryPut(ctx, client, queue, `{}`, jobs.Options{ID: name, Unique: "once"})
		if err != nil {
			return err
		}
		if id != "one" || added != (name == "one") {
			return fmt.Errorf("%s: %s, added: %t", name, id, added)
		}
	}
	return nil
}

func numbers(text string) ([]int, error) {
	var found []int
	for _, word := range strings.Fields(text) {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		found = append(found, number)
	}
	return found, nil
}
