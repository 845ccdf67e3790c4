// An account of asynq's tasks: each is run once, those that fail at first twice. Its scripts make up names of keys.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const (
	taskCount   = 3000
	serverCount = 3
	secondsMax  = 60
)

type ledger struct {
	sync.Mutex
	runs map[int]int
	done int
}

// Every 50th task fails at first, every 3rd is due later, every 7th has a deadline.
func failsAtFirst(number int) bool { return number%50 == 0 }

func (ledger *ledger) handle(_ context.Context, task *asynq.Task) error {
	var number int
	if err := json.Unmarshal(task.Payload(), &number); err != nil {
		return err
	}
	ledger.Lock()
	defer ledger.Unlock()
	ledger.runs[number]++
	if failsAtFirst(number) && ledger.runs[number] == 1 {
		return errors.New("once more")
	}
	ledger.done++
	return nil
}

func options(number int) []asynq.Option {
	queues := []string{"critical", "default", "low"}
	options := []asynq.Option{asynq.Queue(queues[number%len(queues)]), asynq.MaxRetry(3), asynq.TaskID(fmt.Sprint(number))}
	if number%3 == 1 {
		options = append(options, asynq.ProcessIn(time.Duration(number%100)*time.Millisecond))
	}
	if number%5 == 0 {
		options = append(options, asynq.Unique(time.Minute))
	}
	if number%7 == 0 {
		options = append(options, asynq.Deadline(time.Now().Add(time.Minute)))
	}
	return options
}

func enqueue(client *asynq.Client, numbers <-chan int) error {
	for number := range numbers {
		payload, _ := json.Marshal(number)
		task := asynq.NewTask("count", payload)
		if _, err := client.Enqueue(task, options(number)...); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	connection := asynq.RedisClientOpt{Addr: os.Args[1]}
	ledger := &ledger{runs: map[int]int{}}
	for range serverCount {
		server := asynq.NewServer(connection, asynq.Config{
			Concurrency:              10,
			Queues:                   map[string]int{"critical": 6, "default": 3, "low": 1},
			RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 10 * time.Millisecond },
			DelayedTaskCheckInterval: 100 * time.Millisecond,
			TaskCheckInterval:        10 * time.Millisecond,
			LogLevel:                 asynq.FatalLevel,
		})
		if err := server.Start(asynq.HandlerFunc(ledger.handle)); err != nil {
			fmt.Println(err)
			fmt.Println("FAIL account")
			os.Exit(1)
		}
		defer server.Shutdown()
	}
	numbers, ended := make(chan int), make(chan error)
	for range 4 {
		client := asynq.NewClient(connection)
		go func() { ended <- enqueue(client, numbers) }()
	}
	go func() {
		for number := range taskCount {
			numbers <- number
		}
		close(numbers)
	}()
	for range 4 {
		if err := <-ended; err != nil {
			fmt.Println("FAIL account")
			fmt.Println(err)
			os.Exit(1)
		}
	}
	ledger.judge()
}

// Waits for the last task, and for those that should not come.
func (ledger *ledger) judge() {
	count := func() int {
		ledger.Lock()
		defer ledger.Unlock()
		return ledger.done
	}
	for end := time.Now().Add(secondsMax * time.Second); count() < taskCount && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	ledger.Lock()
	defer ledger.Unlock()
	wrong := 0
	for number := range taskCount {
		expected := 1
		if failsAtFirst(number) {
			expected = 2
		}
		if ledger.runs[number] != expected {
			wrong++
			fmt.Printf("task %d ran %d times, not %d\n", number, ledger.runs[number], expected)
		}
	}
	if wrong > 0 || ledger.done != taskCount {
		fmt.Println("FAIL account")
		os.Exit(1)
	}
	fmt.Println("ok account")
}
