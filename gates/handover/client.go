// go-redis while its server hands over, as `handover` starts it: client HOST PORT on|off
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

var (
	ctx    = context.Background()
	client *redis.Client
	lock   sync.Mutex
	isOver atomic.Bool
)

func say(words ...any) {
	lock.Lock()
	defer lock.Unlock()
	fmt.Println(words...)
}

func count(key string) func(int) (string, error) {
	return func(int) (string, error) {
		value, err := client.Incr(ctx, key).Result()
		return fmt.Sprint(key, " ", value), err
	}
}

func push(number int) (string, error) {
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for each := range 20 {
			pipe.RPush(ctx, "pushed", number*20+each)
		}
		return nil
	})
	return fmt.Sprint("pushed ", len(replies)), err
}

func produce(number int) (string, error) {
	return fmt.Sprint("made ", number), client.LPush(ctx, "jobs", number).Err()
}

func consume(int) (string, error) {
	job, err := client.BRPop(ctx, time.Second, "jobs").Result()
	if err == redis.Nil {
		return "waited", nil
	}
	if err != nil {
		return "", err
	}
	return "took " + job[1], nil
}

func repeat(name string, work func(int) (string, error)) {
	for number := 1; !isOver.Load(); number++ {
		if did, err := work(number); err != nil {
			say("error", name, strings.ReplaceAll(err.Error(), "\n", " "))
			time.Sleep(10 * time.Millisecond)
		} else {
			say("did", name, did)
		}
	}
}

func main() {
	mode := maintnotifications.ModeDisabled
	if os.Args[3] == "on" {
		mode = maintnotifications.ModeEnabled
	}
	client = redis.NewClient(&redis.Options{
		Addr:                     os.Args[1] + ":" + os.Args[2],
		MaintNotificationsConfig: &maintnotifications.Config{Mode: mode},
	})
	works := map[string]func(int) (string, error){
		"count-0": count("counter:0"), "count-1": count("counter:1"), "push": push,
		"produce": produce, "consume-0": consume, "consume-1": consume,
	}
	var running sync.WaitGroup
	for name, work := range works {
		running.Add(1)
		go func() {
			defer running.Done()
			repeat(name, work)
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	isOver.Store(true)
	running.Wait()
}
