// What people do with go-redis, done to a server: `go run . HOST:PORT ENGINE`. Ends with 1 at the first thing that is wrong.
//
// On the engine `hashlog` what needs keys in order must be refused, and all else be as it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

var isOrdered = os.Args[2] != "hashlog"

func check(found, expected any, what string) {
	if !reflect.DeepEqual(found, expected) {
		fmt.Printf("%s: %#v instead of %#v\n", what, found, expected)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return value
}

func strings(r *redis.Client) {
	check(must(r.Set(ctx, "k", "v", 0).Result()), "OK", "SET")
	check(must(r.Get(ctx, "k").Result()), "v", "GET")
	_, err := r.Get(ctx, "none").Result()
	check(errors.Is(err, redis.Nil), true, "GET of nothing")
	check(must(r.SetNX(ctx, "k", "w", time.Minute).Result()), false, "SET NX")
	check(must(r.IncrBy(ctx, "n", 42).Result()), int64(42), "INCRBY")
	check(must(r.MGet(ctx, "k", "none").Result()), []any{"v", nil}, "MGET")
	check(must(r.Expire(ctx, "k", time.Minute).Result()), true, "EXPIRE")
	check(must(r.TTL(ctx, "k").Result()), time.Minute, "TTL")
}

func collections(r *redis.Client) {
	check(must(r.HSet(ctx, "h", "f", "1", "g", "2").Result()), int64(2), "HSET")
	check(must(r.HGetAll(ctx, "h").Result()), map[string]string{"f": "1", "g": "2"}, "HGETALL")
	check(must(r.RPush(ctx, "l", 1, 2, 3).Result()), int64(3), "RPUSH")
	check(must(r.LRange(ctx, "l", 0, -1).Result()), []string{"1", "2", "3"}, "LRANGE")
	check(must(r.SAdd(ctx, "s", "a", "b").Result()), int64(2), "SADD")
	members := must(r.SMembers(ctx, "s").Result())
	sort.Strings(members)
	check(members, []string{"a", "b"}, "SMEMBERS")
	check(must(r.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 2.5, Member: "two"}).Result()), int64(2), "ZADD")
	pairs := must(r.ZRangeWithScores(ctx, "z", 0, -1).Result())
	check(pairs, []redis.Z{{Score: 1, Member: "one"}, {Score: 2.5, Member: "two"}}, "ZRANGE WITHSCORES")
}

func refusals(r *redis.Client) {
	names := regexp.MustCompile("--engine tree")
	for _, err := range []error{
		r.HSet(ctx, "h", "f", 1).Err(),
		r.RPush(ctx, "l", 1).Err(),
		r.BLPop(ctx, time.Second, "l").Err(),
		r.SAdd(ctx, "s", 1).Err(),
		r.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "m"}).Err(),
		r.Eval(ctx, "return redis.call('LPUSH', KEYS[1], 'v')", []string{"l"}).Err(),
	} {
		check(err != nil && names.MatchString(err.Error()), true, fmt.Sprint("the refusal ", err))
	}
	check(must(r.Exists(ctx, "h", "l", "s", "z").Result()), int64(0), "EXISTS")
	known := must(r.Do(ctx, "COMMAND", "INFO", "zadd", "get").Slice())
	check([]bool{known[0] != nil, known[1] != nil}, []bool{false, true}, "COMMAND INFO")
}

func together(r *redis.Client) {
	var get *redis.StringCmd
	must(r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "a", 1, 0)
		p.Incr(ctx, "a")
		get = p.Get(ctx, "a")
		return nil
	}))
	check(get.Val(), "2", "MULTI")
	err := r.Watch(ctx, func(tx *redis.Tx) error {
		r.Set(ctx, "a", 10, 0)
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "a"); return nil })
		return err
	}, "a")
	check(errors.Is(err, redis.TxFailedErr), true, "WATCH")
	must(r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for number := range 1000 {
			p.Set(ctx, fmt.Sprintf("p:%d", number), number, 0)
		}
		return nil
	}))
	found := map[string]bool{}
	for walk := r.Scan(ctx, 0, "p:*", 100).Iterator(); walk.Next(ctx); {
		found[walk.Val()] = true
	}
	check(len(found), 1000, "SCAN")
}

func waiting(r *redis.Client) {
	if isOrdered {
		go func() {
			time.Sleep(100 * time.Millisecond)
			r.RPush(ctx, "queue", "job")
		}()
		check(must(r.BLPop(ctx, 5*time.Second, "queue").Result()), []string{"queue", "job"}, "BLPOP")
	}
	subscriber := r.Subscribe(ctx, "news")
	must(subscriber.Receive(ctx))
	check(must(r.Publish(ctx, "news", "hello").Result()), int64(1), "PUBLISH")
	check((<-subscriber.Channel()).Payload, "hello", "a message")
	subscriber.Close()
}

func scripts(r *redis.Client) {
	offered := must(r.Do(ctx, "COMMAND", "INFO", "eval").Slice())
	if offered[0] == nil {
		fmt.Println("skipped: no scripts here")
		return
	}
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	check(must(add.Run(ctx, r, []string{"scripted"}, 5).Int64()), int64(5), "EVALSHA")
	check(must(add.Run(ctx, r, []string{"scripted"}, 5).Int64()), int64(10), "EVALSHA")
}

func main() {
	for _, protocol := range []int{2, 3} {
		r := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol})
		type part struct {
			name string
			run  func(*redis.Client)
		}
		ordered := part{"collections", collections}
		if !isOrdered {
			ordered = part{"refusals", refusals}
		}
		parts := []part{{"strings", strings}, ordered, {"together", together}, {"waiting", waiting}, {"scripts", scripts}}
		for _, part := range parts {
			must(r.FlushAll(ctx).Result())
			part.run(r)
			fmt.Printf("go-redis, RESP%d: %s as expected\n", protocol, part.name)
		}
		r.Close()
	}
}
