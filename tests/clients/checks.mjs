// Runs named checks, and prints `ok NAME` or `not ok NAME: ERROR` for each.
//
// A check is an async function; it has tables of its own, so that none depends on another.

import { isDeepStrictEqual, inspect } from "node:util";

export const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env;
export const URL_OF_DATABASE = `postgres://${PGUSER}@${PGHOST}:${PGPORT}/${PGDATABASE}`;

// The time that one check may take.
const MILLISECONDS = 30_000;
const checks = [];

/** Declares a check. */
export function check(name, action) {
  checks.push({ name, action });
}

/** Fails unless two values are equal. */
export function equal(found, expected) {
  if (!isDeepStrictEqual(plain(found), plain(expected))) {
    throw new Error(`${inspect(found)}, expected ${inspect(expected)}`);
  }
}

// Rows of some libraries have a prototype of their own.
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  const simple = value === null || typeof value !== "object" || Buffer.isBuffer(value);
  if (simple || value instanceof Date) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, plain(part)]));
}

/** Fails unless an action rejects with this SQLSTATE; returns the error of the server. */
export async function raises(state, action) {
  try {
    await action();
  } catch (error) {
    const inner = error.cause ?? error;
    if (inner.code !== state) {
      throw new Error(`code ${inner.code} (${inner.message}), expected ${state}`);
    }
    return inner;
  }
  throw new Error(`no error, expected ${state}`);
}

const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Runs the checks, each with what `open` returns. */
export async function run(open, close) {
  for (const { name, action } of checks) {
    let timer, resource;
    try {
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error("no end within 30 s")), MILLISECONDS);
      });
      const work = async () => {
        resource = await open();
        await action(resource);
      };
      await Promise.race([work(), late]);
      console.log(`ok ${name}`);
    } catch (error) {
      const inner = error.cause?.message ? `${error.cause.message}` : `${error.message}`;
      console.log(`not ok ${name}: ${inner.replace(/\s+/g, " ").slice(0, 300)}`);
    } finally {
      clearTimeout(timer);
      if (resource !== undefined)
        await Promise.race([close(resource).catch(() => {}), pause(5_000)]);
    }
  }
  process.exit(0);
}
