package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

var number int

// fresh makes a database of its own for a check, and returns its address.
func fresh(ctx context.Context) string {
	number++
	name := fmt.Sprintf("%s_%d", os.Getenv("PGDATABASE"), number)
	create := "CREATE DATABASE " + name
	if protocol := os.Getenv("MERIDIAN_PROTOCOL"); protocol != "" {
		create += fmt.Sprintf(" PROTOCOL = %q", protocol)
	}
	c := must(pgx.Connect(ctx, url))
	defer c.Close(ctx)
	must(c.Exec(ctx, create))
	return strings.Replace(url, "/"+os.Getenv("PGDATABASE"), "/"+name, 1)
}
