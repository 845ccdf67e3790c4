// go-redis through Sentinel, as `failover` starts it: client LIST PASSWORD SENTINEL_PORT…
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func say(words ...any) {
	fmt.Println(words...)
}

func portOf(ctx context.Context, client *redis.Client) (string, error) {
	found, err := client.ConfigGet(ctx, "port").Result()
	return found["port"], err
}

func read(ctx context.Context, replica *redis.Client, name string) {
	for ; ; time.Sleep(50 * time.Millisecond) {
		length, err := replica.LLen(ctx, name).Result()
		if err == nil && length > 0 {
			var port string
			if port, err = portOf(ctx, replica); err == nil {
				say("replica", port)
			}
		}
		if err != nil {
			say("error of the replica", err)
		}
	}
}

func write(ctx context.Context, primary *redis.Client, name string, number int) (isOver bool, err error) {
	port, err := portOf(ctx, primary)
	if err != nil {
		return
	}
	say("primary", port)
	if err = primary.RPush(ctx, name, number).Err(); err != nil {
		return
	}
	say("wrote", number)
	found, err := primary.Exists(ctx, "over").Result()
	return found > 0, err
}

func main() {
	ctx := context.Background()
	name, password, sentinels := os.Args[1], os.Args[2], os.Args[3:]
	for index, port := range sentinels {
		sentinels[index] = "127.0.0.1:" + port
	}

	options := redis.FailoverOptions{MasterName: "jobs", SentinelAddrs: sentinels, Password: password}
	primary := redis.NewFailoverClient(&options)
	replicaOptions := options
	replicaOptions.ReplicaOnly = true
	replica := redis.NewFailoverClient(&replicaOptions)

	go read(ctx, replica, name)
	for number := 1; ; number++ {
		isOver, err := write(ctx, primary, name, number)
		if err != nil {
			say("error", err)
		}
		if isOver {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	say("list", strings.Join(primary.LRange(ctx, name, 0, 99).Val(), " "))
}
