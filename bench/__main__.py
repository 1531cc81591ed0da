"""All benchmarks: `python -m bench`. Arguments go to `bench.speed`."""

from bench import latency, queue, speed

if __name__ == "__main__":
    speed.main()
    latency.main([])
    queue.main([])
