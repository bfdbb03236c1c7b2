package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// The time that one check may take.
const limit = 30 * time.Second

// url is the address of the database.
var url = fmt.Sprintf("postgres://%s@%s:%s/%s?sslmode=disable",
	os.Getenv("PGUSER"), os.Getenv("PGHOST"), os.Getenv("PGPORT"), os.Getenv("PGDATABASE"))

// A failure ends a check.
type failure struct{ text string }

// must returns a value, or ends the check by the error.
func must[T any](value T, err error) T {
	try(err)
	return value
}

// try ends the check if there is an error.
func try(err error) {
	if err != nil {
		panic(failure{err.Error()})
	}
}

// equal ends the check unless two values are equal.
func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(failure{fmt.Sprintf("%v (%T), expected %v (%T)", found, found, expected, expected)})
	}
}

// raises ends the check unless the error has this SQLSTATE.
func raises(state string, err error) *pgconn.PgError {
	var told *pgconn.PgError
	if err == nil {
		panic(failure{"no error, expected " + state})
	}
	if !errors.As(err, &told) {
		panic(failure{err.Error() + ", expected " + state})
	}
	if told.Code != state {
		panic(failure{fmt.Sprintf("SQLSTATE %s (%s), expected %s", told.Code, told.Message, state)})
	}
	return told
}

// check runs an action that has tables of its own, and prints `ok NAME` or `not ok NAME: ERROR`.
func check(name string, action func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	done := make(chan string, 1)
	go func() {
		defer func() {
			switch wrong := recover().(type) {
			case nil:
				done <- ""
			case failure:
				done <- wrong.text
			default:
				done <- fmt.Sprint("panic: ", wrong)
			}
		}()
		action(ctx)
	}()
	select {
	case text := <-done:
		if text == "" {
			fmt.Println("ok " + name)
			return
		}
		fmt.Printf("not ok %s: %.300s\n", name, strings.Join(strings.Fields(text), " "))
	case <-time.After(limit + time.Second):
		fmt.Printf("not ok %s: no end within %v\n", name, limit)
	}
}
