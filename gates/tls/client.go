// go-redis over TLS, as `clients` starts it: client PORT CA CERT KEY
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func check(is bool, what ...any) {
	if !is {
		fmt.Println(what...)
		os.Exit(1)
	}
}

func main() {
	port, authority, certificate, key := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	pem, err := os.ReadFile(authority)
	check(err == nil, err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	check(config.RootCAs.AppendCertsFromPEM(pem), "no authority")
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		check(err == nil, err)
		config.Certificates = []tls.Certificate{pair}
	}
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:" + port, TLSConfig: config, MaxRetries: -1})
	large := strings.Repeat("x", 3_000_000)
	err = client.Set(ctx, "large", large, 0).Err()
	check(err == nil, err)
	found, err := client.Get(ctx, "large").Result()
	check(err == nil && found == large, "another value", err)
	counted, err := client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for range 1000 {
			pipeline.Incr(ctx, "n")
		}
		return nil
	})
	check(err == nil && len(counted) == 1000, err)
	go func() {
		time.Sleep(200 * time.Millisecond)
		client.RPush(ctx, "list", "x")
	}()
	popped, err := client.BLPop(ctx, 30*time.Second, "list").Result()
	check(err == nil && popped[1] == "x", popped, err)
	fmt.Println("served")
}
