package stock

import (
	"testing"
	"time"
)

func TestLeft(t *testing.T) { Left(3, 1) }

func TestBroken(t *testing.T) { t.Error("this test always fails") }

func TestSlow(t *testing.T) { time.Sleep(time.Hour) }
