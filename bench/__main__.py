"""All benchmarks: `python -m bench`. Arguments go to `bench.speed`."""

from bench import latency, queue, speed, workers

if __name__ == "__main__":
    speed.main()
    latency.main([])
    workers.main([])
    queue.main([])
