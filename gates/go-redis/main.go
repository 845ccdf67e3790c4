// Each check runs over RESP3 and over RESP2, on a client of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const secondsMax = 30

var checks = []struct {
	name string
	run  func(context.Context, *redis.Client)
}{
	{"connects", connects},
	{"reads values", readsValues},
	{"pipelines", pipelines},
	{"transactions", transactions},
	{"scripts", scripts},
	{"publishes and subscribes", publishesAndSubscribes},
	{"blocks", blocks},
	{"streams", streams},
	{"scans", scans},
}

func equal(got, expected any) {
	if !reflect.DeepEqual(got, expected) {
		panic(fmt.Sprintf("%#v instead of %#v", got, expected))
	}
}

// must gives the value, or ends the check.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func fails(err error, text string) {
	if err == nil || !strings.Contains(err.Error(), text) {
		panic(fmt.Sprintf("%v instead of %s", err, text))
	}
}

func connects(ctx context.Context, client *redis.Client) {
	equal(must(client.Ping(ctx).Result()), "PONG")
	equal(must(client.ClientGetName(ctx).Result()), "gate")
	if info := must(client.ClientInfo(ctx).Result()); info.Resp != client.Options().Protocol {
		panic(info)
	}
}

func readsValues(ctx context.Context, client *redis.Client) {
	must(client.Set(ctx, "text", "größer\r\n", time.Minute).Result())
	equal(must(client.Get(ctx, "text").Result()), "größer\r\n")
	if ttl := must(client.TTL(ctx, "text").Result()); ttl <= 0 || ttl > time.Minute {
		panic(ttl)
	}
	equal(client.Get(ctx, "nothing").Err(), redis.Nil)
	must(client.HSet(ctx, "hash", "a", 1, "b", "two").Result())
	equal(must(client.HGetAll(ctx, "hash").Result()), map[string]string{"a": "1", "b": "two"})
	must(client.ZAdd(ctx, "zset", redis.Z{Score: 1.5, Member: "a"}, redis.Z{Score: math.Inf(1), Member: "b"}).Result())
	equal(must(client.ZRangeWithScores(ctx, "zset", 0, -1).Result()), []redis.Z{{Score: 1.5, Member: "a"}, {Score: math.Inf(1), Member: "b"}})
	must(client.SAdd(ctx, "set", "x", "y").Result())
	equal(must(client.SMembersMap(ctx, "set").Result()), map[string]struct{}{"x": {}, "y": {}})
	fails(client.Incr(ctx, "text").Err(), "ERR value is not an integer")
	fails(client.LPush(ctx, "set", 1).Err(), "WRONGTYPE")
	if _, there := must(client.Command(ctx).Result())["get"]; !there {
		panic("COMMAND does not know GET")
	}
}

func pipelines(ctx context.Context, client *redis.Client) {
	var counts []*redis.IntCmd
	_, err := client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for range 1000 {
			counts = append(counts, pipeline.Incr(ctx, "counter"))
		}
		pipeline.LPush(ctx, "counter", 1)
		counts = append(counts, pipeline.Incr(ctx, "counter"))
		return nil
	})
	fails(err, "WRONGTYPE")
	for index, count := range counts {
		equal(must(count.Result()), int64(index+1))
	}
}

func transactions(ctx context.Context, client *redis.Client) {
	var value *redis.StringCmd
	must(client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
		pipeline.Set(ctx, "a", 1, 0)
		pipeline.Incr(ctx, "a")
		value = pipeline.Get(ctx, "a")
		return nil
	}))
	equal(value.Val(), "2")
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		must(client.Set(ctx, "a", 10, 0).Result())
		_, err := tx.TxPipelined(ctx, func(pipeline redis.Pipeliner) error { return pipeline.Incr(ctx, "a").Err() })
		return err
	}, "a")
	equal(err, redis.TxFailedErr)
	equal(must(client.Get(ctx, "a").Result()), "10")
	_, err = client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error { return pipeline.Do(ctx, "set", "a").Err() })
	fails(err, "EXECABORT")
}

func scripts(ctx context.Context, client *redis.Client) {
	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1]) * 2")
	equal(must(script.Run(ctx, client, []string{"number"}, 4).Int()), 8)
	must(client.ScriptFlush(ctx).Result())
	equal(must(script.Run(ctx, client, []string{"number"}, 1).Int()), 10)
	equal(must(script.Exists(ctx, client).Result()), []bool{true})
	nested := client.Eval(ctx, "return {1, 'two', {3}, {ok = 'fine'}, cjson.encode({KEYS[1]})}", []string{"k"})
	equal(must(nested.Result()), []any{int64(1), "two", []any{int64(3)}, "fine", `["k"]`})
	fails(client.Eval(ctx, "return redis.error_reply('MINE of mine')", nil).Err(), "MINE of mine")
	fails(client.EvalSha(ctx, strings.Repeat("0", 40), nil).Err(), "NOSCRIPT")
}

func publishesAndSubscribes(ctx context.Context, client *redis.Client) {
	subscriber := client.Subscribe(ctx, "one", "two")
	defer subscriber.Close()
	must(0, subscriber.PSubscribe(ctx, "o*"))
	for range 3 {
		_ = must(subscriber.Receive(ctx)).(*redis.Subscription)
	}
	sharded := client.SSubscribe(ctx, "shard")
	defer sharded.Close()
	must(sharded.Receive(ctx))
	equal(must(client.Publish(ctx, "one", "1").Result()), int64(2))
	equal(must(client.SPublish(ctx, "shard", "2").Result()), int64(1))
	patterns := []string{must(subscriber.ReceiveMessage(ctx)).Pattern, must(subscriber.ReceiveMessage(ctx)).Pattern}
	slices.Sort(patterns)
	equal(patterns, []string{"", "o*"})
	equal(must(sharded.ReceiveMessage(ctx)).Payload, "2")
	equal(must(client.PubSubNumSub(ctx, "one").Result()), map[string]int64{"one": 1})
	must(0, subscriber.Ping(ctx, "hello"))
	equal(must(subscriber.Receive(ctx)).(*redis.Pong).Payload, "hello")
}

// meanwhile does `push` while `wait` waits.
func meanwhile[T any](ctx context.Context, client *redis.Client, wait func() (T, error), push func()) T {
	got, ended := make(chan T), make(chan error)
	go func() {
		value, err := wait()
		ended <- err
		got <- value
	}()
	for !strings.Contains(must(client.Info(ctx, "clients").Result()), "blocked_clients:1") {
	}
	push()
	must(0, <-ended)
	return <-got
}

func blocks(ctx context.Context, client *redis.Client) {
	popped := meanwhile(ctx, client, func() ([]string, error) { return client.BLPop(ctx, 0, "first", "second").Result() },
		func() { client.RPush(ctx, "second", "value") })
	equal(popped, []string{"second", "value"})
	equal(client.BLMove(ctx, "from", "to", "LEFT", "RIGHT", 50*time.Millisecond).Err(), redis.Nil)
	least := meanwhile(ctx, client, func() (*redis.ZWithKey, error) { return client.BZPopMin(ctx, 0, "zset").Result() },
		func() { client.ZAdd(ctx, "zset", redis.Z{Score: 2, Member: "b"}) })
	equal(*least, redis.ZWithKey{Key: "zset", Z: redis.Z{Score: 2, Member: "b"}})
}

func streams(ctx context.Context, client *redis.Client) {
	must(client.XGroupCreateMkStream(ctx, "stream", "group", "$").Result())
	read := meanwhile(ctx, client, func() ([]redis.XStream, error) {
		return client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "group", Consumer: "one", Streams: []string{"stream", ">"}, Count: 10, Block: 0}).Result()
	}, func() { client.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"field", "value"}}) })
	entry := read[0].Messages[0]
	equal(entry.Values, map[string]any{"field": "value"})
	equal(must(client.XPending(ctx, "stream", "group").Result()).Consumers, map[string]int64{"one": 1})
	claimed, next, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "stream", Group: "group", Consumer: "two", Start: "0"}).Result()
	equal([]any{len(claimed), claimed[0].ID, next, err}, []any{1, entry.ID, "0-0", nil})
	equal(must(client.XInfoStream(ctx, "stream").Result()).Length, int64(1))
	equal(must(client.XInfoConsumers(ctx, "stream", "group").Result())[1].Pending, int64(1))
	equal(must(client.XAck(ctx, "stream", "group", entry.ID).Result()), int64(1))
	err = client.XRead(ctx, &redis.XReadArgs{Streams: []string{"stream", entry.ID}, Block: 20 * time.Millisecond}).Err()
	equal(err, redis.Nil)
}

func scans(ctx context.Context, client *redis.Client) {
	must(client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for index := range 1000 {
			pipeline.Set(ctx, fmt.Sprintf("key:%d", index), index, 0)
		}
		return nil
	}))
	found := map[string]bool{}
	keys := client.Scan(ctx, 0, "key:*", 100).Iterator()
	for keys.Next(ctx) {
		found[keys.Val()] = true
	}
	must(0, keys.Err())
	equal(len(found), 1000)
}

func run(name string, protocol int, url string, check func(context.Context, *redis.Client)) (right bool) {
	options := must(redis.ParseURL(url))
	options.Protocol, options.ClientName = protocol, "gate"
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeoutCause(context.Background(), secondsMax*time.Second, errors.New("takes too long"))
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Printf("FAIL resp%d %s\n%v\n%s", protocol, name, problem, debug.Stack())
		} else {
			fmt.Printf("ok resp%d %s\n", protocol, name)
			right = true
		}
		cancel()
		client.Close()
	}()
	must(client.FlushAll(ctx).Result())
	check(ctx, client)
	return
}

func main() {
	status := 0
	for _, protocol := range []int{3, 2} {
		for _, check := range checks {
			if !run(check.name, protocol, os.Args[1], check.run) {
				status = 1
			}
		}
	}
	os.Exit(status)
}
