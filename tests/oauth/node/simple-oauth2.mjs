// simple-oauth2 logs in, refreshes and revokes, and checks the errors.
import assert from 'node:assert/strict'
import { ResourceOwnerPassword } from 'simple-oauth2'

const { RUEDA_URL: base, RUEDA_USER: username, RUEDA_PASSWORD: password } = process.env

async function accounts(token) {
  const answer = await fetch(new URL('/broker/accounts', base), { headers: { authorization: `Bearer ${token}` } })
  await answer.body?.cancel()
  return answer.status
}

for (const options of [
  { authorizationMethod: 'header' }, // credentials of the client as Basic, which are not looked at
  { authorizationMethod: 'body' },
]) {
  const oauth = new ResourceOwnerPassword({
    client: { id: 'any', secret: 'any' },
    auth: { tokenHost: base, tokenPath: '/oauth/token', revokePath: '/oauth/revoke' },
    options,
  })
  const login = await oauth.getToken({ username, password })
  assert.equal(login.expired(), false)
  assert.equal(login.token.token_type, 'bearer')
  assert.equal(await accounts(login.token.access_token), 200)

  const renewed = await login.refresh()
  assert.notEqual(renewed.token.refresh_token, login.token.refresh_token)
  assert.equal(await accounts(renewed.token.access_token), 200)

  await renewed.revoke('refresh_token')
  assert.equal(await accounts(renewed.token.access_token), 401)

  const refused = (error) => {
    assert.equal(error.output.statusCode, 400)
    assert.equal(error.data.payload.error, 'invalid_grant')
    return true
  }
  await assert.rejects(renewed.refresh(), refused)
  await assert.rejects(oauth.getToken({ username, password: 'wrong' }), refused)
}

console.log('simple-oauth2 is served')
