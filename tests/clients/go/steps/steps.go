// Package steps reports the steps of a client for Go; see steps.py.
package steps

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// Names are the steps in the order of a script.
var Names = strings.Fields(`cluster create-topic describe-topic describe-configs alter-configs create-partitions produce
	produce-gzip produce-idempotent list-offsets offsets-for-times consume headers group-consume commit list-groups
	describe-group transaction delete-group delete-topic`)

// Records is the number of records of each kind.
const Records = 10

// Wait is the longest time of a step.
const Wait = 20 * time.Second

// Check returns an error if a result is not the expected one.
func Check(found, expected any) error {
	if one, other := fmt.Sprint(found), fmt.Sprint(expected); one != other {
		return fmt.Errorf("%s instead of %s", one, other)
	}
	return nil
}

// Values returns the values of the records of a kind.
func Values(kind string) []string {
	values := make([]string, Records)
	for number := range values {
		values[number] = fmt.Sprintf("%s %d", kind, number)
	}
	return values
}

// All returns the values of all kinds.
func All() []string {
	return append(append(Values("plain"), Values("gzip")...), Values("idempotent")...)
}

// ErrNoSuchCall is the error of a step for which the client has no call.
var ErrNoSuchCall = errors.New("it has no such call")

// Run runs the steps, and prints a line for each.
func Run(module string, steps map[string]func() error) {
	version := "?"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, each := range info.Deps {
			if each.Path == module {
				version = each.Version
			}
		}
	}
	fmt.Println("version", version)
	for _, name := range Names {
		done := make(chan error, 1)
		go func() { done <- steps[name]() }()
		var err error
		select {
		case err = <-done:
		case <-time.After(Wait):
			err = fmt.Errorf("it took more than %s", Wait)
		}
		if err == nil {
			fmt.Println(name, "ok")
		} else if errors.Is(err, ErrNoSuchCall) {
			fmt.Println(name, "-", err)
		} else {
			fmt.Println(name, "failed", strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	os.Exit(0)
}
